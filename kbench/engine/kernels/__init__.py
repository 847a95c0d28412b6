"""The library: kernels that are written by hand, a folder for each family, found by name in
`registry`.

May import `codegen`, `jit`, `intrinsics` and what is below. Each folder has `api` (what finds a
kernel and checks its arrays) and the sources. Main entry: `registry.find`.
"""
