"""What is measured on a page: names and roles of controls, contrast of texts, order of focus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from browser_lab import until

CONTROLS = "input, select, textarea, button, summary, a[href], [role=tab], [tabindex='0']"

# Every piece of text in sight with its contrast; what is disabled is exempt, as WCAG has it.
CONTRAST = """(root, others) => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const pen = canvas.getContext('2d', {willReadFrequently: true});
    const rgba = text => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = text;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => top.slice(0, 3).map(
        (one, i) => one * top[3] + below[i] * (1 - top[3]));
    const linear = one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    const luminance = colour => {
        const [r, g, b] = colour.map(one => linear(one / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = element => {
        const layers = [];
        for (let one = element; one; one = one.parentElement)
            layers.unshift(rgba(getComputedStyle(one).backgroundColor));
        return layers.reduce((below, top) => over(top, below), [255, 255, 255]);
    };
    const found = [];
    const note = (element, text) => {
        const style = getComputedStyle(element), back = ground(element);
        let ink = rgba(style.fill && element.ownerSVGElement ? style.fill : style.color);
        for (let one = element; one; one = one.parentElement)
            ink[3] *= Number(getComputedStyle(one).opacity);
        const [low, high] = [luminance(over(ink, back)), luminance(back)].sort((a, b) => a - b);
        found.push({text: text.trim().slice(0, 60), ratio: (high + 0.05) / (low + 0.05),
                    place: element.tagName.toLowerCase() + '.' + element.getAttribute('class')});
    };
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const element = walk.currentNode.parentElement, text = walk.currentNode.textContent;
        if (!text.trim() || ['STYLE', 'OPTION', 'SCRIPT', 'DESC', 'title'].includes(element.tagName)
            || element.closest(':disabled') || element.closest(others)
            || !element.checkVisibility({visibilityProperty: true}))
            continue;
        note(element, text);
    }
    for (const one of root.querySelectorAll('input, select, textarea'))
        if (!one.disabled && one.checkVisibility() && one.value) note(one, one.value);
    return found;
}"""

FOCUSED = """root => {
    const one = document.activeElement;
    if (!root.contains(one)) return -1;
    return [...root.querySelectorAll('%s')].indexOf(one);
}""" % CONTROLS.replace("'", "\\'")  # noqa: UP031


MARK = """(root, controls) => {
    root.querySelectorAll('[data-probe]').forEach(one => one.removeAttribute('data-probe'));
    const seen = [...root.querySelectorAll(controls)].filter(
        one => one.checkVisibility({visibilityProperty: true}));
    seen.forEach((one, number) => one.setAttribute('data-probe', number));
    return seen.map(one => one.outerHTML.slice(0, 200));
}"""
UNMARK = """root => {
    const left = [...root.querySelectorAll('[data-probe]')];
    left.forEach(one => one.removeAttribute('data-probe'));
    return left.length;
}"""

# Where the Tab key has to stop, by the position among all controls. One stop stands for all tabs of
# a list, and arrows move on.
STOPS = """(root, controls) => [...root.querySelectorAll(controls)].map(
    (one, number) => [number, one]).filter(
    ([, one]) => one.checkVisibility({visibilityProperty: true}) && !one.disabled
        && one.tabIndex >= 0 && one.getAttribute('role') !== 'tab').map(
    ([number, one]) => [number, one.outerHTML.slice(0, 200)])"""


@dataclass(frozen=True)
class Control:
    """A control as the browser's accessibility tree has it."""

    role: str
    name: str
    markup: str


def controls(page: Any, root: Any) -> list[Control]:
    """Every visible control below `root`, with its computed role and name.

    What is drawn anew while it is looked at is looked at again.
    """
    found: list[list[Control]] = []

    def stayed() -> bool:
        one = _controls(page, root)
        found.extend([] if one is None else [one])
        return one is not None

    until(stayed, "controls that stay")
    return found[-1]


def _controls(page: Any, root: Any) -> list[Control] | None:
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("Accessibility.enable")
    found = []
    for number, markup in enumerate(root.evaluate(MARK, CONTROLS)):
        one = {"expression": f"document.querySelector('[data-probe=\"{number}\"]')"}
        handle = session.send("Runtime.evaluate", one)["result"].get("objectId")
        if handle is None:
            session.detach()
            return None
        where = {"objectId": handle, "fetchRelatives": False}
        (node, *_) = session.send("Accessibility.getPartialAXTree", where)["nodes"]
        role = node.get("role", {}).get("value", "")
        name = node.get("name", {}).get("value", "")
        found.append(Control(role, name, markup))
    stayed = root.evaluate(UNMARK) == len(found)
    session.detach()
    return found if stayed else None


def poor_contrast(root: Any, others: str = "head", least: float = 4.5) -> list[str]:
    """The texts below `root` that do not stand out enough, but for `others`, a selector."""
    found = root.evaluate(CONTRAST, others)
    assert found, "no text at all"
    return [f"{one['text']!r} {one['ratio']:.2f} {one['place']}" for one in found
            if one["ratio"] < least]  # fmt: skip


def blank(root: Any) -> list[str]:
    """The labels of visible selections below `root` that show no choice."""
    found = root.evaluate(
        """root => [...root.querySelectorAll('select')].filter(
            one => one.checkVisibility() && (one.selectedIndex < 0 || !one.selectedOptions[0].text)
        ).map(one => one.labels[0]?.textContent ?? one.outerHTML)"""
    )
    return [str(one) for one in found]


def unreached(page: Any, root: Any) -> list[str]:
    """The controls below `root` at which the Tab key never arrives, beginning at the first."""
    reached = set()
    handle = root.element_handle()
    root.evaluate(
        """one => { one.setAttribute('tabindex', '-1'); one.focus(); one.scrollIntoView(); }"""
    )
    for _ in range(root.locator(CONTROLS).count() + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED, handle))
    return [markup for number, markup in root.evaluate(STOPS, CONTROLS) if number not in reached]
