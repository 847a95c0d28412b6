"""What user interfaces read: tensors, arrays, graphs and runs as plain rows; slices, pictures,
statistics, and what this machine can do at best.

May import everything. Main entry: `describe`.
"""
