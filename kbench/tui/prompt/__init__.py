"""The prompt: a Python editor with completions and signatures. Main entry: `prompt.Prompt`."""
