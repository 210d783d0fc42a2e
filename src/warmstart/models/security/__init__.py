"""Model folders from anywhere: files, configs, tensors and tokenizers checked before a library opens them."""
