"""Fused loops: as plain data (`LoopProgram`), and as the object that runs one on checked arrays.
The source between them is written in `writers`. Loops of a `Recurrence` are such programs too.

May import `graph`, `jit` and what is below. Main entries: `loop_kernel.request`,
`row_kernel.request`.
"""
