"""The panes beside the session, a folder for each: its widget (`view`) and what fills it
(`controller`). `registry` is the table of all panes, `bench` what a controller is and sees, and
`panes` tells all of them what has happened.
"""
