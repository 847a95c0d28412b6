"""Writers of kernels: a fused loop as plain data (`LoopProgram`), the source that is written for
it, and the object that runs it on checked arrays. Loops of a `Recurrence` are such programs too.

May import `graph`, `jit` and what is below. Main entries: `loop_kernel.request`,
`row_kernel.request`.
"""
