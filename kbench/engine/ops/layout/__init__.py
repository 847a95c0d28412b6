"""Where elements stand: created, reshaped, indexed, joined, repeated, padded, resized."""
