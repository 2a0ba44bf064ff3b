"""Files on disk: written whole or not at all, and read line by line."""
