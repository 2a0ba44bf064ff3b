"""Access control of the learner link: tokens, certificates, sessions, and bounds on what one peer may send."""
