"""Answering with a finished model; nothing in here trains, or imports what does."""
