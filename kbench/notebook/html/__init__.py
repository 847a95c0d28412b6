"""Static HTML of values and of what widgets show. Main entry: `html`."""
