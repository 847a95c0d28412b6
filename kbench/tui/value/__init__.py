"""The value pane: cells, pictures, and the commands on them. Main entry: `value`."""
