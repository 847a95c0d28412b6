"""Random use of `explore`: any function, values and moves; a result or words, and no change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.exploration import explore_view
from kbench.notebook.exploration.explore_controls import Choice, Fixed
from kbench.notebook.exploration.explore_functions import functions
from kbench.notebook.exploration.explore_run import Runner
from kbench.notebook.exploration.explore_subject import subject
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES
from tests.notebook.exploration.test_explore import ends, told

NAMES = sorted(name for members in functions().values() for name in members)
DTYPES = ["float32", "float64", "float16", "int32", "int8", "bool", "complex64", "U3", "M8[s]"]
VALUES = st.one_of(
    arrays.arrays(
        st.sampled_from(DTYPES).map(np.dtype),
        arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
    ),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=5),
    st.none(),
    st.lists(st.floats(width=32), max_size=4),
    st.lists(st.lists(st.integers(-3, 3), max_size=3), max_size=3),
    st.just({"a": 1}),
    st.just(object()),
)
RANGES = st.one_of(
    VALUES,
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
    st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(-1, 1)),
    st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=3), st.none()), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(-3, 3), max_size=3),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=700, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_anything_is_a_result_or_words(data: Any) -> None:
    name = data.draw(st.sampled_from(NAMES))
    values = data.draw(st.lists(VALUES, max_size=3))
    known = list(subject(name, (), {}).parameters)
    ranges = data.draw(
        st.dictionaries(st.sampled_from(known), RANGES, max_size=2) if known else st.just({})
    )
    before = config.snapshot(), np.random.get_state()[1].tolist()
    try:
        made = subject(name, values, ranges)
    except ArgumentError:
        return
    runner, picked = Runner(), {}
    good = None
    for _ in range(data.draw(st.integers(1, 4))):
        for argument, control in made.controls.items():
            if isinstance(control, Fixed) or data.draw(st.booleans()):
                continue
            choices = (
                [value for _, value in control.options]
                if isinstance(control, Choice)
                else ends(control)
            )
            picked[argument] = data.draw(st.sampled_from(choices))
        now = runner.run(made, picked)
        told(now, made.line(picked))
        good = now if not now.words else good
        assert explore_view.text(made, good, now)
        page = explore_view.portrait(made, good, now)
        assert len(page.encode()) <= MAX_OUTPUT_BYTES + 4_000
    assert (config.snapshot(), np.random.get_state()[1].tolist()) == before
    assert describe.printable(K.placeholder((2,), name="p").name) == "p:0"
    K.clear_session()
