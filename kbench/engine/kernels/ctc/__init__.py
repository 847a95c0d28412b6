"""Connectionist temporal classification: the cost of rows, and its slope.

Main entry: `api.find`.
"""
