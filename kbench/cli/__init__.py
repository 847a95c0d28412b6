"""The `kbench` command: what was asked for (`main`), and one file for each way to answer.

Imports everything below it, each only when it is asked for: `kbench --version` loads no NumPy.
Main entry: `main.main`.
"""
