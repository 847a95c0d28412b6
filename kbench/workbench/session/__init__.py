"""Sessions: cells run in a kernel process, in this process, or in somebody else's kernel, behind
one interface.

Main entries: `kernel_session.KernelSession`, `local_session.LocalSession`, `session_interface`.
"""
