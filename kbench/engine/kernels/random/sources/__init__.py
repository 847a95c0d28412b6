"""Kernel file of random numbers.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
