"""Watched expressions: which may be watched, their values, and how they are shown.

Main entry: `watches.Watches`.
"""
