"""The workbench's widgets, one to a file."""
