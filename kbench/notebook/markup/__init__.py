"""What every HTML output is made of: escaped elements, tables, the style sheet. No values."""
