"""Sums, products and running totals on NumPy that lose no digits and do not overflow on the way.

They import `core` alone. Begin with `summation.added` and `exact_folds.product`.
"""
