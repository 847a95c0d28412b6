"""The trainer that models of Keras 3 are made of."""

from kbench.keras3.training.trainer import Trainer
