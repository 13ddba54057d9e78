"""Experiments: what to run, running it, choosing settings, and what came out."""
