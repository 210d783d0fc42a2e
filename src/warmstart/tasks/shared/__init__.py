"""What several tasks share: texts as batches, the label map, metrics, the task of a saved model."""
