"""How an encoder is tuned: parts that also work in a training script of your own."""
