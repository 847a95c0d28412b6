"""What front ends and the inspector say to each other: one question and one reply for each verb.

Loaded by the terminal before its first frame and by every kernel, so it imports neither NumPy nor
the engine. Main entries: `verbs` (the table), `record` (what they are made of), `messages` (JSON).
"""
