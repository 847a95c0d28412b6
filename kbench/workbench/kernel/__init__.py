"""What runs inside the kernel beside the user's program, and leaves that as it was.

Main entries: `extension`, which loads the inspector, and `sandbox`, which runs code within a time.
"""
