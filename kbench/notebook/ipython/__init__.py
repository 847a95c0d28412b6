"""IPython's side: the extension, magics, progress bars, and cells of lessons."""
