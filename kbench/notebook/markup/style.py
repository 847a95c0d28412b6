"""The one style sheet of every output, scoped to the class `kb-v`; at most 3 kB.

nbclassic has a class `kb` of its own; parts are called `kb-...`, which nothing else is.

An output never knows on which page it is read: many follow neither JupyterLab's variables nor the
reader's system. So every text has the page's own colour, or a mixture of it with a hue, and is
legible wherever the page's own text is. Only figures, which have a white ground of their own, ask
whether the page says that it is dark.
"""

from __future__ import annotations

OUTPUT = ":is(.jp-OutputArea-child,.output_area,.output_container)"
"""One output of a cell, as a selector: in JupyterLab, Notebook 7 and Voila; nbclassic; VS Code."""
_BAD, _NAME = "255 0 34", "0 119 255"
"""Red of warnings and blue of names: mixed half and half with the colour of the page's text."""
_SHADES = {"n": "50 140 230", "p": "230 90 70"}
"""Blue of cells below 0 and red of those above, laid over the ground of the page."""
_SOFT = 85
"""Percent of the page's colour in labels; the rest is its ground."""
_MONOSPACED = (
    "var(--jp-code-font-family,var(--vscode-editor-font-family,"
    "ui-monospace,Menlo,Consolas,monospace))"
)
_DARK_PAGES = (
    "[data-jp-theme-light=false]",  # JupyterLab, Notebook 7, Voila, exported pages
    "html[data-theme=dark]",  # marimo, sites of Sphinx and Jupyter Book
    "body[data-theme=dark]",
    "html[theme=dark]",  # Colab
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
)
_STEPS = (0.09, 0.18, 0.27, 0.36)
"""How strong the shade of a cell is, from about 0 to the largest."""


def _mixed(hue: str) -> str:
    """A hue mixed with the colour of the text around it."""
    return f"color:color-mix(in srgb,currentColor,rgb({hue}))"


_LABEL = f"color:color-mix(in srgb,currentColor {_SOFT}%,transparent)"
_LINE = "1px solid color-mix(in srgb,currentColor 25%,transparent)"
_RULES = (
    ".kb-v{line-height:1.45;max-width:100%;overflow-x:auto;"
    "font-size:var(--jp-code-font-size,var(--vscode-editor-font-size,13px))}",
    ".kb-v p,.kb-v details{margin:.2em 0}",
    ".kb-v pre{margin:.2em 0;padding:0;border:0;background:none;color:inherit;font-size:inherit;"
    "white-space:pre}",
    f".kb-v .kb-head b{{{_mixed(_NAME)}}}",
    ".kb-v pre,.kb-v code,.kb-v td,.kb-v th,.kb-v .kb-bars{"
    f"font-family:{_MONOSPACED};font-size:inherit;background:none;padding:0;color:inherit}}",
    ".kb-v dl{display:flex;flex-wrap:wrap;gap:.1em 1.4em;margin:0 0 .3em}",
    ".kb-v dl>div{display:flex;gap:.5em}",
    ".kb-v dl>div>dt,.kb-v dl>div>dd{float:none;width:auto;min-width:0;margin:0;padding:0}",
    f".kb-v dl>div>dt{{flex:none;font-weight:400;{_LABEL}}}",
    f".kb-v .kb-bars{{letter-spacing:0;white-space:pre;border-bottom:{_LINE}}}",
    f".kb-v .kb-bad{{{_mixed(_BAD)};font-weight:600}}",
    ".kb-v .kb-good{font-weight:600}",
    f".kb-v summary{{display:list-item;cursor:pointer;{_LABEL}}}",
    ".kb-v summary:focus-visible{outline:2px solid}",
    ".kb-v table{border-collapse:collapse;border:0;margin:.2em 0;font-size:inherit}",
    f".kb-v caption{{caption-side:top;text-align:left;padding:.1em 0;white-space:nowrap;{_LABEL}}}",
    f".kb-v th,.kb-v td{{border:{_LINE};padding:.1em .5em;text-align:right;"
    "white-space:nowrap;font-weight:400}",
    f".kb-v thead th{{{_LABEL}}}",
    ".kb-v .kb-text td,.kb-v .kb-text th{text-align:left}",
    ".kb-v .kb-words{white-space:normal}",
    *(
        f".kb-v .kb-{sign}{level}{{background:rgb({hue}/{share})}}"
        for sign, hue in _SHADES.items()
        for level, share in enumerate(_STEPS, 1)
    ),
    ".kb-v .kb-bare{display:none}",  # read where neither style nor SVG is kept
    ".kb-v .kb-figure{max-width:100%}",
    # White becomes #121212; red and blue stay so.
    ",".join(f"{page} .kb-figure" for page in _DARK_PAGES)
    + "{filter:invert(.93) hue-rotate(180deg)}",
    # The titles of ipywidgets' tabs are fainter than anyone should have to read.
    ".kb-tabs .lm-TabBar-tabLabel{color:var(--jp-ui-font-color1,inherit)}",
    ".kb-tabs .lm-TabBar-tab{flex:1 0 auto!important}",  # and are cut where there is little room
    # A table that is too wide scrolls by itself, below controls that stay.
    ".widget-html-content:has(.kb-v){min-width:0}",
    # A slider's handle, which has no name, is seen and dragged but neither focused nor read out.
    ".kb-drag .noUi-handle{visibility:hidden}.kb-drag .noUi-touch-area{visibility:visible;"
    "border-radius:50%;background:var(--jp-brand-color1,#17d)}",
    "@media (forced-colors:active){.kb-v td,.kb-v th{border-color:CanvasText}.kb-v .kb-bad{"
    "text-decoration:underline}}",
    "@media print{.kb-v{overflow:visible;color:#000}.kb-v details>*{display:revert}}",
)

STYLE = "".join(_RULES)
