"""What is inside a value of any kind: its entries, its lines, its cells, a page at a time.

Main entries: `entries` lists, `address` finds again, `open_verbs` answers the front ends.
"""
