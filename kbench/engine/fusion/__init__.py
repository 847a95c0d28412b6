"""What runs as one kernel: elementwise groups with the fold they feed, rows, and the steps of
loops.

May import `compiler`, `codegen` and what is below. Main entries: `elementwise.find_groups`,
`row_schedule.gather_rows`, `scan_match.trace_step`.
"""
