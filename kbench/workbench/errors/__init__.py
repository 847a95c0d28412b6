"""Errors explained in the user's own expression. Main entry: `explanation`."""
