"""The engine: symbolic graphs, gradients, compiled kernels. It knows no user interface.

Its rooms look downwards only, in this order: inspect, execute, fusion, compiler, control_flow,
autodiff, ops, kernels, codegen, graph, intrinsics, jit, runtime, core. `docs/architecture.md` has
the picture.
"""
