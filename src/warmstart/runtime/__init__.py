"""The running program: processes, signals, environment, progress and trackers."""
