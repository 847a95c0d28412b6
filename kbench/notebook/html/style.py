"""The one style sheet of every output, scoped to the class `kb`; at most 3 kB.

Colours follow JupyterLab's variables where they exist. The order of the rules matters: what the
reader's system prefers comes first, and what the page says of itself overrides it.
"""

from __future__ import annotations

_LIGHT = "--kb-bad:#a8071a;--kb-heat:20 110 190;--kb-name:#0b5394"
_DARK = "--kb-bad:#ff9c8f;--kb-heat:90 170 250;--kb-name:#8ab8f0"
_DARK_PAGE = "--kb-text:#e3e3e6;--kb-soft:#b0b3ba;--kb-edge:#4a4d55"
_LIGHT_PAGE = "--kb-text:#1b1b1f;--kb-soft:#55585f;--kb-edge:#c4c7ce"
_STEPS = (0.05, 0.09, 0.13, 0.17, 0.21, 0.25, 0.29, 0.33, 0.37)

_RULES = (
    f".kb{{{_LIGHT};{_LIGHT_PAGE}}}",
    f"@media (prefers-color-scheme:dark){{.kb{{{_DARK};{_DARK_PAGE}}}}}",
    "[data-jp-theme-light=true] .kb,html[data-theme=light] .kb,body[data-theme=light] .kb,"
    f".vscode-light .kb{{{_LIGHT};{_LIGHT_PAGE}}}",
    "[data-jp-theme-light=false] .kb,html[data-theme=dark] .kb,body[data-theme=dark] .kb,"
    f".vscode-dark .kb{{{_DARK};{_DARK_PAGE}}}",
    ".kb{color:var(--jp-content-font-color1,var(--kb-text));line-height:1.45;"
    "font-size:var(--jp-code-font-size,13px);max-width:100%;overflow-x:auto}",
    ".kb p,.kb details{margin:.2em 0}",
    ".kb pre{margin:.2em 0;padding:0;border:0;background:none;color:inherit;font-size:inherit;"
    "white-space:pre}",
    ".kb .kb-head b{color:var(--kb-name)}",
    ".kb pre,.kb .kb-head>code,.kb p>code,.kb dd>code,.kb td,.kb th,.kb .kb-bars{"
    "font-family:var(--jp-code-font-family,"
    "ui-monospace,Menlo,Consolas,monospace);font-size:inherit;background:none;padding:0;color:inherit}",
    ".kb dl{display:flex;flex-wrap:wrap;gap:.1em 1.4em;margin:0 0 .3em}",
    ".kb dl>div{display:flex;gap:.5em}",
    ".kb dl>div>dt,.kb dl>div>dd{float:none;width:auto;min-width:0;margin:0;padding:0}",
    ".kb dl>div>dt{flex:none;font-weight:400;color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb .kb-bars{letter-spacing:0;white-space:pre;border-bottom:1px solid var(--kb-edge)}",
    ".kb .kb-bad{color:var(--kb-bad);font-weight:600}",
    ".kb .kb-good{font-weight:600}",
    ".kb summary{cursor:pointer;color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb summary:focus-visible{outline:2px solid var(--kb-name)}",
    ".kb table{border-collapse:collapse;border:0;margin:.2em 0;font-size:inherit}",
    ".kb caption{caption-side:top;text-align:left;padding:.1em 0;white-space:nowrap;"
    "color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb th,.kb td{border:1px solid var(--kb-edge);padding:.1em .5em;text-align:right;"
    "white-space:nowrap;font-weight:400}",
    ".kb thead th{color:var(--jp-content-font-color2,var(--kb-soft))}",
    ".kb .kb-text td,.kb .kb-text th{text-align:left}",
    *(
        f".kb .kb-h{level}{{background:rgb(var(--kb-heat)/{share})}}"
        for level, share in enumerate(_STEPS, 1)
    ),
    # The titles of ipywidgets' tabs are fainter than anyone should have to read.
    ".kb-tabs .lm-TabBar-tabLabel{color:var(--jp-ui-font-color1)}",
    # A table that is too wide scrolls by itself, below controls that stay.
    ".widget-html-content:has(.kb){min-width:0}",
    # A slider's handle, which has no name, is seen and dragged but neither focused nor read out.
    ".kb-drag .noUi-handle{visibility:hidden}.kb-drag .noUi-touch-area{visibility:visible;"
    "border-radius:50%;background:var(--jp-brand-color1,#17d)}",
    "@media (forced-colors:active){.kb td,.kb th{border-color:CanvasText}.kb .kb-bad{"
    "text-decoration:underline}}",
    "@media print{.kb{overflow:visible;color:#000}.kb details>*{display:revert}}",
)

STYLE = "".join(_RULES)
