"""Labelling a corpus with Ray: every row answered or set aside, once, whatever dies on the way."""
