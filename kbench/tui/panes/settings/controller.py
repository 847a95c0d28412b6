"""What is set: shown as the kernel says it, and changed there."""

from __future__ import annotations

from functools import partial

from kbench.tui.messages import AssignSetting, SettingRefused
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.registry import BY_ID
from kbench.tui.panes.settings.view import SettingsPane
from kbench.tui.session.link import AskFailed
from kbench.workbench.core_types import JsonObject, SettingValue
from kbench.workbench.protocol.session import Config


class SettingsController(PaneController):
    """Nothing is asked for: the kernel tells its settings after each change."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        bench.on(SettingRefused, lambda event: self.refused(event.reason))
        bench.on(AssignSetting, lambda event: self.assign(event.name, event.value))

    def mounted(self) -> None:
        """Its title never changes."""
        self.bench.title("settings", BY_ID["settings"].title)

    def settings_changed(self, settings: JsonObject) -> None:
        """What is set."""
        if (pane := self.bench.view(SettingsPane)) is not None:
            pane.show(settings)

    def assign(self, name: str, value: SettingValue) -> None:
        """Set one setting; the kernel's answer is shown, be it a refusal."""
        self.bench.run(partial(self._assign, name, value))

    async def _assign(self, name: str, value: SettingValue) -> None:
        pane = self.bench.view(SettingsPane)
        assert pane is not None  # it is what assigns
        try:
            data = await self.bench.ask(Config(set={name: value}))
        except AskFailed as error:
            pane.refuse(str(error))
            return
        pane.accept("set when the running cell ends" if data.queued else "")
        self.bench.take_settings(data.config)

    def refused(self, reason: str) -> None:
        """The kernel refused a setting after the fact."""
        if (pane := self.bench.view(SettingsPane)) is not None:
            pane.refuse(reason)
