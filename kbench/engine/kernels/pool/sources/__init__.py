"""Kernel files of pooling and of interpolation.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
