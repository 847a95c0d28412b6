"""The session so far: a list of cells, drawn row by row. Main entry: `transcript.Transcript`."""
