"""Reductions, means and deviations, running sums, batch normalization."""
