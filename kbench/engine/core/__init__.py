"""The ground: errors, shapes and dtypes, cancelling, forks, paths, nested structures, sparse
arrays.

Imports nothing of the engine but itself. Main entries: `errors.KbenchError`, `spec.Spec`,
`cancel.check`.
"""
