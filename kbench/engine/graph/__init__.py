"""The symbolic graph: tensors, operations, how they are declared and what passes may ask of them,
variables, name scopes, and how values of users become tensors.

May import `core` and `runtime`. Main entries: `tensor.Tensor`, `op.Op`, `apply.apply`,
`declare.elementwise`.
"""
