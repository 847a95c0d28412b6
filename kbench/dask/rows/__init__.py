"""Whether a graph computes each row of a batch from that row alone, so that chunks of rows will do.

`analysis.analyse` follows the batch axis from the inputs to the outputs, by a rule for each
operation (`rules`, `layout_rules`). A rule answers only where it is sure; all else counts as mixed.
Knows no Dask.
"""
