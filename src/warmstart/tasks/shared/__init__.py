"""What several tasks share: texts as batches, the label map, the task beside a saved model."""
