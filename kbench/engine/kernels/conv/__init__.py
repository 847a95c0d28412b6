"""Convolutions, channels last, over one to three axes, forward and back; and locally connected
layers.

Main entry: `api.find`; `direct` chooses among direct form, Winograd's and matrix products.
"""
