"""Keys: the table of all of them (`keys`), the user's own, presets, and the terminal's side."""
