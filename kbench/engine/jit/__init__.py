"""From the source of a kernel to code at an address: the service that is asked, the process that
compiles, the folder of compiled code, the loader, and the thread pool that runs it.

May import `core` and `runtime`. Numba is imported in `numba_backend` alone, in the process that
compiles. Main entries: `service.service`, `launch.Prepared`, `thread_pool.Driver`.
"""
