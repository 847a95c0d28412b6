"""Data moved: copies between any strides, rows taken and added by index, one-hot rows.

Main entries: `strided_copy.copy`, `gather.find_take`, `scatter_add.find`, `one_hot.find`.
"""
