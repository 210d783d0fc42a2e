"""The running program: processes, signals, environment, plugins, progress and trackers."""
