"""Training by all workers of a cluster, step by step with the result of one machine.

`fit` is the way in. `program` makes of a model what workers compute and what the client stores;
`collective` and `statistics` let shards see the moments of the whole batch; `shard` runs on the
workers, `parts` adds up what they give; `step` is a step as the client sees it, faults included.
"""
