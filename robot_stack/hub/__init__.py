"""Policies and episodes as folders that others can take: what travels, its card, and the Hugging Face Hub."""
