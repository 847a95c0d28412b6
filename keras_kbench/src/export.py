"""Export, which is not available: Keras' own files of models are."""

from typing import NoReturn

REASON = (  # the first sentence is the one that Keras' own tests look for
    "`export_saved_model` only currently supports the tensorflow, jax and torch backends. On "
    "kbench, model.save('model.keras') keeps a model, and another backend can load and export it."
)


class ExportArchive:
    """What Keras asks of a backend; each of its methods says that there is no export."""

    def __init__(self) -> None:
        raise NotImplementedError(REASON)

    def track(self, resource: object) -> NoReturn:
        raise NotImplementedError(REASON)
