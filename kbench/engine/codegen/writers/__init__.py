"""From a `LoopProgram` to the source of its kernel: what all sources have (`writer`), the
arithmetic of values and folds (`typed_expr`, `running_folds`), and the loops of each schedule.

May import `codegen.loop_program`, `codegen.row_sweeps`, `graph` and what is below. Main entry:
`kernel_source.source`.
"""
