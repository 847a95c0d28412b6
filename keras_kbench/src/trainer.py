"""The trainer that models of Keras 3 are made of."""

from kbench.keras3.trainer import Trainer
