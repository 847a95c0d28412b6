"""What the last recorded run did: one row per step with its form, time and throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.content import Content

from kbench.tui.glyphs import human_bytes, human_seconds
from kbench.tui.messages import TitleChanged
from kbench.tui.palette import MUTED
from kbench.tui.table import Column, Table
from kbench.tui.text import safe


def rate(value: float | None) -> str:
    """A rate in three digits; '-' when there is none."""
    if value is None or value <= 0:
        return "-"
    return f"{value:.3g}" if value >= 0.01 else "<.01"


class PlanTable(Table):
    """Steps of the last run; Enter shows the source of a fused step."""

    columns = (
        Column("step", 1),
        Column("op", 0, most=40, least=14, stretch=True),
        Column("form", 0, most=8),
        Column("time", 0, right=True),
        Column("bytes", 3, right=True),
        Column("GB/s", 1, right=True),
        Column("GFLOP/s", 2, right=True),
        Column("place", 4, most=16),
    )

    def __init__(self) -> None:
        super().__init__("plan")
        self.run: Mapping[str, Any] = {}
        self.empty_rows = [
            Content.styled(" No run yet. Call a K.function or K.eval, for example:", MUTED),
            Content.styled("   K.eval(K.softmax(K.ones((4, 4))))", MUTED),
        ]

    def show(self, run: Mapping[str, Any] | None) -> None:
        """Draw a run record."""
        self.run = run or {}
        rows = self.run.get("rows") or []
        self.fill([(str(row.get("step", at)), self._cells(row)) for at, row in enumerate(rows)])
        self.post_message(TitleChanged("plan", self._title()))

    def _cells(self, row: Mapping[str, Any]) -> list[Content | str]:
        return [
            str(row.get("step", "")),
            safe(str(row.get("op", ""))),
            str(row.get("form", "")),
            human_seconds(float(row.get("seconds") or 0.0)),
            human_bytes(row.get("bytes")),
            rate(row.get("gb_per_s")),
            rate(row.get("gflop_per_s")),
            safe(str(row.get("place") or "-")),
        ]

    def _title(self) -> str:
        if not self.run:
            return "Plan"
        forms = self.run.get("forms") or {}
        words = ", ".join(f"{count} {form}" for form, count in forms.items())
        seconds = human_seconds(float(self.run.get("seconds") or 0.0))
        return f"Plan: {safe(str(self.run.get('function', '')))} {seconds} ({words})"

    def source(self, key: str) -> str:
        """The generated source of a step, '' when it has none."""
        for row in self.run.get("rows") or []:
            if str(row.get("step")) == key:
                return str(row.get("source") or "")
        return ""
