"""The base that layers of Keras 3 are made of."""

from kbench.keras3.training.layer import BackendLayer
