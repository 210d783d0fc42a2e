"""Training: settings, batches, schedules, checkpoints and callbacks around the one Trainer."""
