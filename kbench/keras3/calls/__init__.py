"""How functions of `keras.ops` are called: at once by NumPy (`host`), or as a graph.

An eager call that is built as a graph keeps its plan (`planned`), and a loop of one's own the
function of an equal program (`program`).
"""
