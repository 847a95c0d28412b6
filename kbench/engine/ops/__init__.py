"""The operations, a folder for each family: rule of shapes, NumPy form, gradient, traits and
docstring stand together.

May import `graph`, `kernels` and what is below; never a compiler pass or `autodiff`.
"""
