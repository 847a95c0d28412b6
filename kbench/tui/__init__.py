"""The terminal workbench, a Textual app over a kernel session; imports nothing until it is run."""
