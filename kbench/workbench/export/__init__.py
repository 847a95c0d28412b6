"""Values to files, and the cells of a session to a script or a notebook. Main entry: `export`."""
