"""Tables of which rows share what they are run with."""

from __future__ import annotations

from sampling import in_turns


def test_rows_take_turns_and_nothing_is_left_out() -> None:
    rows = [("one", 0), *(("few", n) for n in range(2)), *(("many", n) for n in range(7))]
    choices = {"one": "abcd", "few": "abcd", "many": "abcde"}
    found = in_turns(rows, lambda row: row[0], lambda row: choices[row[0]])
    assert [row for row, _ in found] == rows
    assert [chosen for _, chosen in found[:5]] == [
        ["a", "b", "c", "d"], ["a", "c"], ["b", "d"], ["a", "d"], ["b", "e"],
    ]  # fmt: skip
    for name, every in choices.items():
        assert {one for row, chosen in found for one in chosen if row[0] == name} == set(every)
