"""Gradients of linear algebra, one rule for real and complex numbers: `nodes` has the pieces.

Where a matrix has no derivative (equal eigenvalues, a singular value of 0) the
formulas divide by zero, and the gradient is infinite or NaN.
"""
