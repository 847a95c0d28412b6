"""Which operation made the first NaN or infinity, and which call of a function.

Main entries: `nan_trace`, `nan_verbs`.
"""
