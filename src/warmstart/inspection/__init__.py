"""Looking into encoders: what they know, and how alike two of them are. Nothing here trains a model."""
