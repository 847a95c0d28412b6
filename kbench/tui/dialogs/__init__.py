"""Dialogs and what opens over the main screen. Main entries: `dialogs`, `overlays`."""
