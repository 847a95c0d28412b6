"""The process that compiles: who starts it, what it answers, and how object code becomes an image.

Only `compiler_process` belongs to the user's process; the rest is loaded by the one that compiles.
"""
