"""How the policy asks for help: signals of trouble, a calibrator that learns what they mean, and one request each."""
