"""YAML files as frozen models: every mistake is told at once, each with file, line, column and the legal name."""
