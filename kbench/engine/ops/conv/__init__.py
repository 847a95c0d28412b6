"""Convolution as Keras calls it (`api`), the ops it is made of (`convolve`), depthwise and locally
connected convolution, and the bias of a layer.
"""
