"""Shrinking: a smaller model from a finished run, kept only if it is as good as was asked for."""
