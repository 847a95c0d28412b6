"""Printed text on its way to a front end: gathered, capped, and as a terminal shows it.

Main entry: `stream`.
"""
