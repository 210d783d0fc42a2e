"""Model folders from any source: files, configs, tensors and tokenizers are checked before a library loads them."""
