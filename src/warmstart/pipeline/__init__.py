"""A recipe carried out: its stages, and the reading and measuring around them."""
