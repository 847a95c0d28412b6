"""Kernel file of the thread pool.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
