"""Gradients of linear algebra as nodes: `nodes` has the pieces, the others the rules.

Where a matrix has no derivative (equal eigenvalues, a singular value of 0) the
formulas divide by zero, and the gradient is infinite or NaN.
"""
