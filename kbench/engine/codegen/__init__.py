"""Writers of kernels: programs as plain data (loops, rows, scans), the source that is written for
each, and the object that runs it on checked arrays.

May import `graph`, `jit` and what is below. Main entries: `loop_kernel.request`,
`row_kernel.request`.
"""
