"""Watched expressions: `view` is the table, `controller` the list and when it is evaluated."""
