"""Text and tokens: offsets, alignment, windows and tag schemes, as pure functions."""
