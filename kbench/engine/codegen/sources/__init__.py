"""Kernel file that runs other kernels.

It is read as text (`jit/kernel_file.py`), and never imported.
"""
