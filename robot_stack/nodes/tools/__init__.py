"""Processes that look on: console, recorders, doctor, bring-up."""
