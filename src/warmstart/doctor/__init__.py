"""The doctor: what this machine has, what is missing, and known problems."""
