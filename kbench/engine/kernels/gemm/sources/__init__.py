"""Kernel file of matrix products.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
