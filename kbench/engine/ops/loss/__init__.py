"""Losses: one number for each sample or element."""
