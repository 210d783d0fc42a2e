"""Active learning: which unlabelled rows are worth labelling next, and whether asking saves any."""
