"""Branches and loops: `api` has the functions of `keras.ops`, `rnn` those of recurrent layers.

`loops` makes a body one operation of the engine, `stores` keeps apart what it stores.
"""
