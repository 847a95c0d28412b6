"""What compiled code is written with: memory access, SIMD functions, atomics, the multiply-add
tile.

Loaded only where kernels are compiled, as it imports Numba through `jit/numba_backend`. Main
entry: `toolkit`, all names that a generated source may import.
"""
