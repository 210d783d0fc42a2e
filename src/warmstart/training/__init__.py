"""Training: settings, batches, schedules, checkpoints and callbacks around `transformers.Trainer`."""
