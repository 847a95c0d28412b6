"""IPython's side: extension, magics, `show`, error reports, progress bars, cells of lessons."""
