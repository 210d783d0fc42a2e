"""data2vec-text: an architecture of transformers whose positions start behind the padding, as RoBERTa's do."""

from warmstart.models.architectures import ArchitectureSpec

DATA2VEC = ArchitectureSpec(offset_positions=True, stock_poolings={"cls": {}})
