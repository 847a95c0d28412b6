"""The panes beside the session, each a widget and what fills it; the value's have a room of their
own.
"""
