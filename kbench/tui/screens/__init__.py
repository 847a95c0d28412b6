"""The workbench's screens, one to a file."""
