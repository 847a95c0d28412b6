"""The version, alone in its file so that `kbench --version` reads it without loading the package."""

__version__ = "0.1.0"
