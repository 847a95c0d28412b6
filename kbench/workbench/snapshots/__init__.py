"""What the user's variables were after earlier cells: bounded copies, and the verb that finds them.

Main entries: `snapshots` keeps, `copies` copies, `past_verbs` answers.
"""
