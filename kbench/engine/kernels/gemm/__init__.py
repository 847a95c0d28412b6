"""Matrix products, packed, on the multiply-add tile. Main entry: `api.find`."""
