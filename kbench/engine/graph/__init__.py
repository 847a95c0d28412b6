"""The symbolic graph: tensors, operations and how they are declared, variables, name scopes, and
how values of users become tensors.

May import `core` and `runtime`. Main entries: `tensor.Tensor`, `op.Op`, `apply.apply`,
`declare.elementwise`.
"""
