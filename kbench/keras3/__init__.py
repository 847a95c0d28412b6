"""Keras 3 on kbench: what its backend hook asks for. The engine knows nothing of it.

Arrays are NumPy's, and symbols of a trace are `Traced` (`tensor.py`).
"""
