"""Kernel files of softmax and its like, and of the places of largest and smallest values.

They are read as text (`jit/kernel_file.py`), and never imported.
"""
