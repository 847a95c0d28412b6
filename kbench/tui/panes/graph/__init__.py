"""How something comes about: `view` draws the graph, `controller` fetches it page by page."""
