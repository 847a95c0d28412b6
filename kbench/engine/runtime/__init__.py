"""What holds for the whole process: environment, settings and their files, folders, threads, how
long work takes and the scratch memory for it, NumPy's matrix products, signals, records of runs.

May import `core`. Main entries: `config`, `paths`, `threads.count`, `signal.Signal`,
`profile.publish`.
"""
