"""What is set: `view` shows it and lets it be chosen, `controller` has it set in the kernel."""
