"""The base that optimizers of Keras 3 are made of."""

from kbench.keras3.training.optimizer import BackendOptimizer
