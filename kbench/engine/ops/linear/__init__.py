"""Matrix products: `dot` and `batch_dot`, and the kernels behind them."""
