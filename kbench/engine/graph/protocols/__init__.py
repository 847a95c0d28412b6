"""What others ask of a tensor: Python's operators, NumPy and its like, pickles that tell damage.

None of these modules knows the class Tensor; it takes the methods of the first two over.
`pickling`, which stays where written pickles look for it, uses `checksums`.
"""
