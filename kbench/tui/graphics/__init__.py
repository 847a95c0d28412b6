"""Pictures in their own pixels, on terminals that draw them. Main entry: `graphics.Graphics`.

A picture is laid out as rows of placeholders: text that Textual cuts, scrolls and covers like any
other. The driver replaces them when they are written, so that nothing else knows a protocol.
"""
