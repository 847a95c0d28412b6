"""Kernels of kbench, compiled ahead: a file for each level of processors (docs/packs.md)."""
