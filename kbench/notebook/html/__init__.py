"""Static HTML of values. Main entries: `html`, `show.show`; `markup` escapes, `style` is the
sheet.
"""
