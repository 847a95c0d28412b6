"""What was typed and shown, on disk: inputs of all sessions, journals, and sessions taken up
again.

Main entries: `input_history`, `journal.Journal`, `session_archive`.
"""
