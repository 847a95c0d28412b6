"""Decoding of CTC: against the likeliest of every path, narrow beams, rows that are odd."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from ctc_paths import EPSILON, every_spelling, predictions, shares

from kbench import backend as K

# ------------------------------------------------------------------ beams


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("steps", "classes"), [(1, 3), (4, 2), (5, 3), (4, 4)])
def test_a_wide_beam_finds_the_likeliest_spellings(steps: int, classes: int, seed: int) -> None:
    """With a beam that drops nothing, order and probabilities are those of all paths."""
    y_pred = predictions(seed, steps, classes)[None]
    wanted = sorted(every_spelling(shares(y_pred[0])).items(), key=lambda one: -one[1])
    paths = len(wanted)
    labels, score = K.ctc_decode(y_pred, [steps], greedy=False, beam_width=999, top_paths=paths)
    values = K.function([], [*labels, score])([])
    found = [tuple(one for one in row[0].tolist() if one >= 0) for row in values[:-1]]
    assert found == [one for one, _ in wanted]
    assert np.allclose(np.exp(values[-1][0]), [chance for _, chance in wanted], 1e-12)


def narrow(probability: np.ndarray, width: int) -> list[tuple[int, ...]]:
    """Prefix beam search by a dictionary of beginnings: another way to write the same rule."""
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    blank = probability.shape[1] - 1
    for step in probability:
        grown: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for one, (ends_blank, ends_label) in beam.items():
            grown[one][0] += (ends_blank + ends_label) * step[blank]
            for k in range(blank):
                if one and one[-1] == k:
                    grown[one][1] += ends_label * step[k]
                    grown[(*one, k)][1] += ends_blank * step[k]
                else:
                    grown[(*one, k)][1] += (ends_blank + ends_label) * step[k]
        best = sorted(grown.items(), key=lambda item: -sum(item[1]))[:width]
        beam = {one: (a, b) for one, (a, b) in best}
    return sorted(beam, key=lambda one: -sum(beam[one]))


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_beam_keeps_the_best_beginnings(width: int, seed: int) -> None:
    y_pred = predictions(seed, 14, 4, sharp=1.0)
    paths = min(width, 3)
    labels, _ = K.ctc_decode(y_pred[None], [14], False, width, paths)
    found = [tuple(K.eval(one)[0].tolist()) for one in labels]
    assert found == narrow(shares(y_pred), width)[:paths]


# ------------------------------------------------------------------ decoding


def test_greedy_merges_repeats_and_drops_blanks() -> None:
    path = [[0, 0, 3, 0, 1, 1, 2, 3], [3, 3, 3, 3, 3, 3, 3, 3], [2, 1, 1, 3, 1, 0, 0, 0]]
    y_pred = np.eye(4)[path] * 0.9 + 0.02
    labels, score = K.ctc_decode(y_pred, [8, 8, 6])
    assert len(labels) == 1
    assert K.int_shape(labels[0]) == (3, None)
    assert K.int_shape(score) == (3, 1)
    value, scores = K.function([], [labels[0], score])([])
    assert value.tolist() == [[0, 0, 1, 2], [-1] * 4, [2, 1, 1, 0]]
    assert value.dtype == np.int64
    assert np.allclose(scores[:, 0], -np.log(0.92 + EPSILON) * np.array([8, 8, 6]))


def test_merge_repeated_merges_what_a_blank_parted() -> None:
    y_pred = np.eye(3)[[[0, 2, 0, 1]]] * 0.9 + 0.02
    for merge, wanted in ((False, [[0, 0, 1]]), (True, [[0, 1]])):
        labels, _ = K.ctc_decode(y_pred, [4], greedy=False, merge_repeated=merge)
        assert K.eval(labels[0]).tolist() == wanted


def test_the_batch_is_decoded_once_for_all_results() -> None:
    y_pred, steps = K.placeholder((None, None, 4)), K.placeholder((None,), dtype="int32")
    labels, score = K.ctc_decode(y_pred, steps, False, 5, 3)
    run = K.function([y_pred, steps], [*labels, score])
    with K.record() as runs:
        values = run([predictions(1, 2, 6, 4), np.array([6, 4])])
    assert [one.shape[0] for one in values] == [2, 2, 2, 2]
    assert [step.label for step in runs[-1].steps].count("ctc_beam") == 1


def test_rows_without_steps_or_labels() -> None:
    labels, score = K.ctc_decode(np.zeros((2, 0, 3)), [0, 0])
    assert K.eval(labels[0]).shape == (2, 0)
    assert K.eval(score).tolist() == [[0.0], [0.0]]
    labels, score = K.ctc_decode(np.full((1, 5, 3), 1 / 3), [0], greedy=False)
    assert K.eval(labels[0]).shape == (1, 0)
    assert K.eval(score).tolist() == [[0.0]]
    labels, score = K.ctc_decode(np.zeros((0, 4, 3)), np.zeros((0,), int), False, top_paths=2)
    assert [K.eval(one).shape for one in (*labels, score)] == [(0, 0), (0, 0), (0, 2)]


@pytest.mark.parametrize("greedy", [True, False])
def test_a_row_with_nan_is_not_read(greedy: bool) -> None:
    y_pred = predictions(0, 2, 5, 3)
    y_pred[0, 3, 1] = np.nan
    labels, score = K.ctc_decode(y_pred, [5, 5], greedy)
    value, scores = K.function([], [labels[0], score])([])
    assert (value[0] == -1).all()
    assert (value[1] >= 0).any()
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()
    again, _ = K.ctc_decode(y_pred, [3, 5], greedy)  # the NaN is behind the end now
    assert (K.eval(again[0])[0] >= 0).any()


def test_decoding_has_no_gradient() -> None:
    x = K.placeholder((1, 4, 3))
    _, score = K.ctc_decode(x, [4])
    assert K.gradients(K.sum(score), x) == [None]
