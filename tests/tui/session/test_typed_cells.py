"""The chain that typed cells pass: who takes a text, and what becomes of one that nobody takes."""

from __future__ import annotations

from bench_screen import bench, settle, submit

from kbench.tui.signal import CellTyped


async def test_the_first_that_takes_a_text_ends_the_chain() -> None:
    async with bench() as (app, pilot, session):
        asked: list[tuple[str, str]] = []
        told: list[CellTyped] = []

        def takes_hello(code: str) -> bool:
            asked.append(("first", code))
            return code == "hello"

        def takes_all(code: str) -> bool:
            asked.append(("second", code))
            return code == "bye"

        app._main.typed_cells.intercept(takes_hello)
        app._main.typed_cells.intercept(takes_all)
        app._main.bench.on(CellTyped, told.append)
        await submit(pilot, "hello")
        assert asked == [("first", "hello")] and not session.cells
        assert app._main.bench.prompt.text == "hello"  # the prompt is its business
        await submit(pilot, "bye")
        assert asked[1:] == [("first", "bye"), ("second", "bye")] and not told
        await submit(pilot, "1 + 1")
        await settle(pilot)
        assert [cell.code for cell in session.cells.values()] == ["1 + 1"]
        assert [(typed.block.code, typed.now) for typed in told] == [("1 + 1", False)]
        assert app._main.bench.prompt.text == ""
