"""Names of the styles that several widgets share."""

from __future__ import annotations

MUTED = "$foreground 65%"  # a real colour; Textual's $text-muted comes out white in a line
