"""Running: functions, plans bound to shapes, their steps, replay of kernels as one call, updates
in place.

May import everything but `inspect`. Main entries: `function.function`, `plan.make_plan`,
`executable.Executable`.
"""
