"""Random models of Keras 3, their training, and calls of `keras.ops`, each by its seed.

Nothing in here knows kbench: the same seed makes the same model, weights and data on each backend.
`python -m keras3_programs` compares two backends; `tests/keras3/test_random_models.py` compares the
ways in which kbench runs one model.
"""
