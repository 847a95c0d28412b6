"""What is done with a value that is shown: commands, copies, files, searches."""
