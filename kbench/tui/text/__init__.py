"""How things are written on a terminal: safe text, glyphs, tables, lines."""
