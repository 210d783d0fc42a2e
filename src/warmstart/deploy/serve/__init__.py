"""Answering requests: a front of our own that refuses what is wrong, and models behind it in Ray Serve."""
