"""What the widgets have in common: what they are given, when they redraw, whom they ask, and the
picture that stays when no widget can be shown.
"""
