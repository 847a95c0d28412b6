"""Elementwise expressions: the table of scalar functions, the tree, and its NumPy form.

Imports only the engine's core. Begin with `expression.py`.
"""
