"""Loops: `rnn`, `map_fn`, `foldl`, `foldr` trace their step once; the gradient of a loop is a
loop. Nested structures of values, which they take and give.

May import `autodiff`, `ops` and what is below. Main entries: `rnn.rnn`, `map.map_fn`.
"""
