"""What holds for the whole process: environment, settings and their files, folders, threads,
NumPy's matrix products, signals, records of runs.

May import `core`. Main entries: `config`, `paths`, `threads.count`, `signal.Signal`,
`profile.publish`.
"""
