"""The panes beside the session, a folder for each: what is known of it (`__init__`), its widget
(`view`) and what fills it (`controller`). `registry` lists all panes, `bench` is what a controller
is and sees, and `panes` tells all of them what has happened.
"""
