"""The version, alone in its file: `kbench --version` reads it without loading the package."""

__version__ = "0.1.0"
