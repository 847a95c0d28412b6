"""Depthwise convolution, over two axes, forward and back. Main entry: `api.find`."""
