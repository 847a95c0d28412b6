"""Winograd's convolution: float32, windows of 3x3, no strides.

Main entry: `api`, asked by `conv`.
"""
