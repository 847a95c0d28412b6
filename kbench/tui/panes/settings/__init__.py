"""What is set: `view` shows it and lets it be chosen, `controller` has it set in the kernel."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

KEYS = (
    Key("settings", "setting_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("settings", "setting_up", "up,k", "move(-1)", "setting above"),
    Key("settings", "setting_down", "down,j", "move(1)", "setting below"),
    Key("settings", "setting_less", "left", "turn(-1)", "choice to the left"),
    Key("settings", "setting_more", "right", "turn(1)", "choice to the right"),
    Key("settings", "setting_edit", "enter", "edit", "type a value, or next choice"),
)
SPEC = PaneSpec(
    id="settings",
    title="Config",
    letter="c",
    about="Changed in the kernel at once; what the kernel refuses is not shown as set.",
    region="corner",
    view="kbench.tui.panes.settings.view:SettingsPane",
    controller="kbench.tui.panes.settings.controller:SettingsController",
    takers=(
        Taker(
            "settings-list",
            ("settings",),
            {"setting_edit": "change", "setting_less": "less", "setting_more": "more"},
        ),
    ),
    keys=KEYS,
)  # fmt: skip
