"""What a run's folder records: for each JSON file a dataclass, and the one place where it is read and written."""
