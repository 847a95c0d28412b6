"""Kernel file of the CTC loss.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
