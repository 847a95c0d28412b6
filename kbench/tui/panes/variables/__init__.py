"""The names of the session: `view` is the table, `controller` has its rows read."""
