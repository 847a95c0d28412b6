"""A bag of words in Keras 3: a step on rows of a SciPy matrix beside one on arrays.

    python benchmarks/keras3/bag_of_words.py

20,000 documents of 50,000 words, 100 of which are in each; a Dense(64) reads them. Each form of the
data has a process of its own, whose peak memory is that of the whole program.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

DOCUMENTS, WORDS, PER_DOCUMENT, BATCH = 20_000, 50_000, 100, 128
EPOCHS = 2
FORMS = ("csr", "dense batches", "dense")
OPTIMIZERS = ("sgd", "adam")


def _data(form: str):  # noqa: ANN202
    """The documents as one matrix, as one array, or as a data set of batches that are arrays."""
    import keras
    import numpy as np
    import scipy.sparse

    draw = np.random.default_rng(0)
    counts = draw.integers(1, 5, DOCUMENTS * PER_DOCUMENT).astype("float32")
    places = draw.integers(0, WORDS, DOCUMENTS * PER_DOCUMENT, dtype=np.int32)
    starts = np.arange(0, counts.size + 1, PER_DOCUMENT)
    matrix = scipy.sparse.csr_array((counts, places, starts), shape=(DOCUMENTS, WORDS))
    matrix.sum_duplicates()
    labels = draw.integers(0, 2, (DOCUMENTS, 1)).astype("float32")

    class Arrays(keras.utils.PyDataset):
        def __len__(self) -> int:
            return -(-DOCUMENTS // BATCH)

        def __getitem__(self, i: int):  # noqa: ANN204
            part = slice(i * BATCH, (i + 1) * BATCH)
            return matrix[part].toarray(), labels[part]

    if form == "dense batches":
        return (Arrays(),), {}
    return (matrix if form == "csr" else matrix.toarray(), labels), {"batch_size": BATCH}


def _measured(form: str, optimizer: str) -> None:
    """Print milliseconds of a step of `fit` and of a batch of `predict`, and the peak in MB."""
    os.environ["KERAS_BACKEND"] = "kbench"
    import kbench  # noqa: F401  # isort: skip
    import keras

    data, options = _data(form)
    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential(layers)
    model.compile(optimizer, "binary_crossentropy")
    model.fit(*data, epochs=1, shuffle=False, verbose=0, **options)
    steps = -(-DOCUMENTS // BATCH)
    begun = time.perf_counter()
    model.fit(*data, epochs=EPOCHS, shuffle=False, verbose=0, **options)
    step = (time.perf_counter() - begun) / (EPOCHS * steps)
    model.predict(data[0], verbose=0, **options)
    begun = time.perf_counter()
    model.predict(data[0], verbose=0, **options)
    batch = (time.perf_counter() - begun) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"| {form} | {optimizer} | {1e3 * step:.1f} ms | {1e3 * batch:.1f} ms | {peak:,} MB |")


def main() -> None:
    """A table of all forms."""
    if len(sys.argv) == 3:
        _measured(*sys.argv[1:])
        return
    print("| x | optimizer | a step of fit | a batch of predict | peak memory |")
    print("|---|---|---|---|---|", flush=True)
    for optimizer in OPTIMIZERS:
        for form in FORMS:
            subprocess.run([sys.executable, __file__, form, optimizer], check=True)


if __name__ == "__main__":
    main()
