"""Reading checkpoints of TensorFlow, without TensorFlow, and turning those of BERT into folders of transformers."""
