"""The moving picture at the top of the README: the workbench while code is typed, as a GIF.

    python .ci/moving_picture.py            writes docs/moving.gif

Each picture is drawn by `kbench --screenshot` from the lines of STORY up to it, in a session of its
own, and rasterised by the Chromium that the browser tests use.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "moving.gif"
SIZE = "120x34"
WIDTH = 960
"""Pixels: a README's column is narrower, and letters of 8 pixels are legible."""
COLOURS = 128
"""Of the whole picture: more would blow up the file, fewer make shades alike."""
STORY: tuple[tuple[float, str], ...] = (
    (
        1.2,
        """
import numpy as np; rng = np.random.default_rng(7)
x = K.placeholder((None, 16), name='x')
:type w = K.variable(rng.normal(0, .3, (16
""",
    ),
    (
        1.6,
        """
w = K.variable(rng.normal(0, .3, (16, 6)), name='w')
:type h = K.relu(K.dot(x, w
""",
    ),
    (
        1.6,
        """
h = K.relu(K.dot(x, w) + 0.1)
loss = K.mean(K.square(h))
step = K.update(w, w - 0.1 * K.gradients(loss, [w])[0])
train = K.function([x], [loss], [step])
batch = rng.normal(size=(32, 16)).astype('float32')
:type [round(float(train([batch])[0]), 3) for _ in
""",
    ),
    (
        2.5,
        """
[round(float(train([batch])[0]), 3) for _ in range(6)]
:press f3 end up
:press f2
""",
    ),
    (1.2, "\n:type K.dot(h, w\n"),
    (3.5, "\nK.dot(h, w)\n"),
    (3.0, "\n:press alt+4\n"),
)
"""Seconds that a picture is shown, and what is typed before it; `:type` is left in the prompt."""


def scripts() -> list[str]:
    """The script of each picture: all that was run or pressed before it, then its own lines."""
    before, found = "", []
    for _, lines in STORY:
        found.append(before + lines)
        before += "".join(f"{line}\n" for line in lines.splitlines() if line[:5] != ":type")
    return found


def drawn(script: str, folder: Path) -> Path:
    """An SVG of what the workbench shows after a script."""
    handle, name = tempfile.mkstemp(".kbs", dir=folder)
    os.close(handle)
    source = Path(name)
    source.write_text(script, encoding="utf-8")
    out = source.with_suffix(".svg")
    command = [sys.executable, "-m", "kbench", "--screenshot", str(out), "--size", SIZE]
    subprocess.run([*command, "--script", str(source)], check=True, cwd=ROOT)
    return out


def pixels(svgs: list[Path]) -> list[Image.Image]:
    """The pictures as a browser draws them."""
    with sync_playwright() as driver:
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        found = []
        for svg in svgs:
            box = re.search(r'viewBox="0 0 (\d+)\S* (\d+)', svg.read_text("utf-8"))
            assert box is not None
            wide, high = int(box[1]), int(box[2])
            page.set_viewport_size({"width": wide, "height": high})
            page.goto(svg.as_uri())
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            size = WIDTH, high * WIDTH // wide
            found.append(image.resize(size, Image.Resampling.LANCZOS))
        browser.close()
    return found


def main(out: Path) -> None:
    """Draw all pictures, with one palette for all, and write them as one GIF."""
    with tempfile.TemporaryDirectory() as folder:
        images = pixels([drawn(script, Path(folder)) for script in scripts()])
    high = sum(image.height for image in images)
    sheet = Image.new("RGB", (WIDTH, high))
    for number, image in enumerate(images):
        sheet.paste(image, (0, number * image.height))
    palette = sheet.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    shown = [int(1000 * seconds) for seconds, _ in STORY]
    frames[0].save(
        out, save_all=True, append_images=frames[1:], duration=shown, loop=0, optimize=True
    )
    print(f"{out.name}: {len(frames)} pictures, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
