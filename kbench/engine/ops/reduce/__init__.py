"""Reductions, means and deviations, running sums, batch normalization.

`summation` adds on NumPy.
"""
