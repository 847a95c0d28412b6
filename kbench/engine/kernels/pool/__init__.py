"""Pooling, the largest and the mean, forward and back; and bilinear resizing.

Main entries: `api.find`, `resize.find`.
"""
