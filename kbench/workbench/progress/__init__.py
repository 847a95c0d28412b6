"""How far a running cell has come. Main entries: `progress.progress`, `pace`, `loops`."""
