"""Choice between two computations, the learning phase that often decides it, and `print_tensor`."""
