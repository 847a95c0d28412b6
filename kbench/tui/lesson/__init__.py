"""A lesson beside the live panes. Main entry: `lesson_controller`."""
