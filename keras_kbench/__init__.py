"""The name by which Keras 3 finds its backend on kbench: `import keras_kbench` before `keras`."""

from kbench.keras3.repairs import install

install()
