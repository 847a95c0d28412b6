"""Sources of folds along an axis that are no plain loops: softmax, argmax, running sums.

`registry` finds them by name.
"""
