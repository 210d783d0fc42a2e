"""Serving models over HTTP: a Starlette application that checks every request, and replicas in Ray Serve behind it."""
