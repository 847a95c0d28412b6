"""Connectionist temporal classification: `cost`, `decode`, and their arithmetic on NumPy."""
