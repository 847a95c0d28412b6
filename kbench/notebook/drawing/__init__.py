"""Pictures in a notebook: graphs as SVG, slices as PNG."""
