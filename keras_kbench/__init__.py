"""The name by which Keras 3 finds its backend on kbench; `import kbench` makes it known."""

import kbench  # noqa: F401
