"""Gradients of a loss: `view` is the table, `controller` chooses the loss and has it derived."""
