"""The doctor: what this machine has, what is missing, and what is known to go wrong."""
