"""What `kbench.plots` is: the pictures that people expect of tensors, records and runs."""
