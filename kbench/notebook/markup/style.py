"""The one style sheet of every output, scoped to the class `kb-v`; at most 3.5 kB.

nbclassic has a class `kb` of its own; parts are called `kb-...`, which nothing else is.

Colours follow JupyterLab's variables where they exist. The order of the rules matters: what the
reader's system prefers comes first, and what the page says of itself overrides it.
"""

from __future__ import annotations

OUTPUT = ":is(.jp-OutputArea-child,.output_area)"
"""One output of a cell, as a selector: in JupyterLab, Notebook 7 and Voila, and in nbclassic."""
_LIGHT = "--kb-bad:#a8071a;--kb-n:20 110 190;--kb-p:215 75 45;--kb-name:#0b5394;--kb-f:none"
_DARK = (
    "--kb-bad:#ff9c8f;--kb-n:90 170 250;--kb-p:240 110 80;--kb-name:#8ab8f0;"
    "--kb-f:invert(.93) hue-rotate(180deg)"  # white becomes #121212; red and blue stay so
)
_DARK_PAGE = "--kb-text:#e3e3e6;--kb-soft:#b0b3ba;--kb-edge:#4a4d55"
_LIGHT_PAGE = "--kb-text:#1b1b1f;--kb-soft:#55585f;--kb-edge:#c4c7ce"
_STEPS = (0.09, 0.18, 0.27, 0.36)
"""How strong the shade of a cell is, from about 0 to the largest."""

_RULES = (
    f".kb-v{{{_LIGHT};{_LIGHT_PAGE}}}",
    f"@media (prefers-color-scheme:dark){{.kb-v{{{_DARK};{_DARK_PAGE}}}}}",
    "[data-jp-theme-light=true] .kb-v,html[data-theme=light] .kb-v,"
    "body[data-theme=light] .kb-v,body.notebook_app .kb-v,"  # nbclassic, which has no dark theme
    f".vscode-light .kb-v{{{_LIGHT};{_LIGHT_PAGE}}}",
    "[data-jp-theme-light=false] .kb-v,html[data-theme=dark] .kb-v,"
    "body[data-theme=dark] .kb-v,"
    f".vscode-dark .kb-v{{{_DARK};{_DARK_PAGE}}}",
    ".kb-v{color:var(--jp-content-font-color1,var(--kb-text));line-height:1.45;"
    "font-size:var(--jp-code-font-size,13px);max-width:100%;overflow-x:auto}",
    ".kb-v p,.kb-v details{margin:.2em 0}",
    ".kb-v pre{margin:.2em 0;padding:0;border:0;background:none;color:inherit;font-size:inherit;"
    "white-space:pre}",
    ".kb-v .kb-head b{color:var(--kb-name)}",
    ".kb-v pre,.kb-v .kb-head>code,.kb-v p>code,.kb-v dd>code,.kb-v td,.kb-v th,.kb-v .kb-bars{"
    "font-family:var(--jp-code-font-family,"
    "ui-monospace,Menlo,Consolas,monospace);font-size:inherit;background:none;padding:0;color:inherit}",
    ".kb-v dl{display:flex;flex-wrap:wrap;gap:.1em 1.4em;margin:0 0 .3em}",
    ".kb-v dl>div{display:flex;gap:.5em}",
    ".kb-v dl>div>dt,.kb-v dl>div>dd{float:none;width:auto;min-width:0;margin:0;padding:0}",
    ".kb-v dl>div>dt{flex:none;font-weight:400;color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb-v .kb-bars{letter-spacing:0;white-space:pre;border-bottom:1px solid var(--kb-edge)}",
    ".kb-v .kb-bad{color:var(--kb-bad);font-weight:600}",
    ".kb-v .kb-good{font-weight:600}",
    ".kb-v summary{cursor:pointer;color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb-v summary:focus-visible{outline:2px solid var(--kb-name)}",
    ".kb-v table{border-collapse:collapse;border:0;margin:.2em 0;font-size:inherit}",
    ".kb-v caption{caption-side:top;text-align:left;padding:.1em 0;white-space:nowrap;"
    "color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb-v th,.kb-v td{border:1px solid var(--kb-edge);padding:.1em .5em;text-align:right;"
    "white-space:nowrap;font-weight:400}",
    ".kb-v thead th{color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb-v .kb-text td,.kb-v .kb-text th{text-align:left}",
    *(
        f".kb-v .kb-{sign}{level}{{background:rgb(var(--kb-{sign})/{share})}}"
        for sign in "np"
        for level, share in enumerate(_STEPS, 1)
    ),
    ".kb-v .kb-figure{filter:var(--kb-f);max-width:100%}",
    # The titles of ipywidgets' tabs are fainter than anyone should have to read.
    ".kb-tabs .lm-TabBar-tabLabel{color:var(--jp-ui-font-color1)}",
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
