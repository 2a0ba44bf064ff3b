"""YAML into frozen models: every mistake at once, each with file, line, column and the legal name."""
