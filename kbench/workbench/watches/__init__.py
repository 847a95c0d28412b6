"""Watched expressions: which may be watched, their values, and how they are told.

Main entry: `watches.Watches`.
"""
