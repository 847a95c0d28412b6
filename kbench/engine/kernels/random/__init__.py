"""Arrays filled with random numbers: Philox words, turned into a distribution.

Main entry: `fill.find`; `normal` is the way to normal numbers that NumPy and kernels share.
"""
