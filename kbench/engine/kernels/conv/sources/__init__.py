"""Kernel files of convolutions, and of layers that are connected locally.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
