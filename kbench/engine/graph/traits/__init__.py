"""What an operation says of itself, so that no pass has to know which operation it is.

`roles` has the words, `batching`, `laws` and `row_form` the rules that several operations share.
They import `core` and the graph; operations and passes import them. Begin with `roles.Role`.
"""
