"""Kernel files that run other kernels, and that join what items of these leave.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
