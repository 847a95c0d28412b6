"""Kernel files of copies, of rows taken and added by index, and of one-hot rows.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
