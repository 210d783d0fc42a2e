"""What is on disk: folders that are valid or absent, JSON and YAML from anywhere, locks, the cache's place."""
