"""What is put on top of an encoder: stock heads of transformers, or our own."""
