"""`explore(fn)`: a function with a control for each argument.

Main entry: `explore_panel.explore`.
"""
