"""Kernel files of depthwise convolutions.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
