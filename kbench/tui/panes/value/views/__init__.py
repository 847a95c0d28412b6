"""What the value pane shows: cells of an array, entries, a picture, a curve."""
