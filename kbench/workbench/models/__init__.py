"""Keras' models and layers as rows and graphs. Their fields are read; none of their code runs."""
