"""What can be done with sparse tensors."""
