"""What runs as one kernel: elementwise groups with the fold they feed, rows, and the steps of
loops. Each is written as a `LoopProgram`; what groups and rows have in common is in `group`.

May import `compiler`, `codegen` and what is below. Main entries: `elementwise.find_groups`,
`row_schedule.fuse_rows`, `scan_match.match_body`.
"""
