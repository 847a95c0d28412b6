"""Kernels: compiled loops over arrays, and their NumPy forms. Imports only `config` and `threads`.

Importing this package loads no Numba; that happens in a background thread on the first request.
"""
