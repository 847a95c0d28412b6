"""The value pane: cells, pictures, and the commands on them. Main entries: `view`, `controller`."""
