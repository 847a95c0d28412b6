"""`kbench bench --keras3`: the same models on Keras 3 with kbench, JAX, PyTorch and TensorFlow.

`cases` says what is measured, `models` builds it with Keras 3, `worker` is the process in which one
backend works, `measure` takes turns, `report` draws the tables, and `command` reads the options.
Nothing here is imported from outside but `command` and `cases`; they need NumPy alone. All backends
work in the Python that `--peer-python` names, which has Keras 3 and the peers.
"""
