"""Kernel files of the thread pool, and of functions that Python calls.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
