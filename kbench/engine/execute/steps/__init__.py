"""The steps of an executable, one kind to a file: NumPy forms (`base`), fused groups, library
kernels, loops, rows, compiled loops, kernels with an epilogue; and small ones as one function.

`execute/select.py` chooses among them. What runs a plan of its own is handed its makers (`base`).
"""
