"""Pooling as Keras calls it (`api`), and its NumPy forms."""
