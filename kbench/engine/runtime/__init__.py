"""What holds for the whole process: settings and their file, threads, NumPy's matrix products,
records of runs.

May import `core`. Main entries: `config`, `threads.count`, `profile.publish`.
"""
