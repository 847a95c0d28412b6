"""What stands around the public names: Keras 1's forms of them, the table of what they take and
give, and `compare`, which runs an expression on several engines.

The names themselves are listed in `kbench/backend.py`. May import the engine; the workbench and
the user interfaces build on it. Main entries: `legacy`, `reference.entries`, `comparison.compare`.
"""
