"""File formats, one file a format; each gives rows exactly as they are written."""
