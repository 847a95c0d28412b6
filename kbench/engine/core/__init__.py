"""The ground: errors, shapes and dtypes, cancelling, forks, sparse arrays, sums,
Python's parser.

Imports nothing of the engine but itself. Main entries: `errors.KbenchError`, `spec.Spec`,
`cancel.check`.
"""
