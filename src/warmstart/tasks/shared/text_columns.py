"""The columns of rows that are a text, or a pair of texts."""

from __future__ import annotations

from warmstart.data.schema import Column

TEXT = Column("text", "text", "the text, or the first of a pair")
PAIR = Column("pair", "text", "the second text of a pair", required=False)
