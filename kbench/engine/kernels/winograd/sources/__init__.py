"""Kernel files of Winograd's convolution.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
