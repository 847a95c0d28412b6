"""The programs of examples/keras3 reach what they assert; their page shows what they print."""

import keras3_there  # noqa: F401  # isort: skip
import pytest
from example_programs import check_page, run, runner

START = """

import os

os.environ["KERAS_BACKEND"] = "kbench"

import kbench"""


@pytest.mark.slow
@pytest.mark.parametrize("name", runner.KERAS_3.order)
def test_it_reaches_what_it_asserts(name, tmp_path):
    run(runner.KERAS_3, name, tmp_path)


def test_each_has_its_place_and_its_output():
    check_page(runner.KERAS_3, START)


def test_colours_of_a_progress_bar_are_left_out():
    drawn = "\x1b[1m1/2\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m──\x1b[0m\r\x1b[1m2/2\x1b[0m ━━━━\n"
    assert runner.screen(drawn) == "2/2 ━━━━"
