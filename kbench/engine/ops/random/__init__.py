"""Random tensors and dropout; `sampling` is how random words become numbers."""
