"""`kbench bench --inference`: models of Keras on kbench, ONNX Runtime and OpenVINO.

`cases` says what is measured, `models` builds it with Keras, `export` writes it as a graph of
ONNX's operations with the help of `layout` and `graph`, `runners` has the three libraries,
`worker` is the process that each works in, `measure` takes turns, and `report` draws the tables.
Nothing here is imported from outside but `cases`, `measure` and `report`; they need NumPy alone.
"""
