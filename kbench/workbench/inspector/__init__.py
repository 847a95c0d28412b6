"""The inspector, which answers what a front end asks about the namespace: verbs, rows, summaries.

Main entries: `inspector.Inspector`, `protocol`, `namespace`, `summary`.
"""
