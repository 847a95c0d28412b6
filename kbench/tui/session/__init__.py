"""Between the kernel session and the screen: what its events change, and what is asked of it."""
