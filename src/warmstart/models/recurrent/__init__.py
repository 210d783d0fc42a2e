"""The AWD-LSTM: a recurrent language model, and heads on it, known to the Auto classes of transformers."""
