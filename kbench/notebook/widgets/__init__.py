"""The widgets, one to a file; `notebook/registry.py` lists them."""
