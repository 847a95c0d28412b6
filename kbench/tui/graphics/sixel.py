"""Pictures as sixels: bands of six lines of pixels, a character for six pixels of one colour."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

BAND = 6
MAX_COLOURS, MAX_PHOTO_COLOURS = 128, 64
"""Of a drawing, and of a photograph, whose bands have most of them; each is a pass over a band."""
MAX_DRAWING_COLOURS = 4096
"""Of a picture that is a drawing: axes and lines with soft edges have some hundreds."""
MIN_COLOURS = 2
MAX_KEPT_BANDS = 1200
"""Of one picture at most: whole ones in the three ways that a cell's edge can cut a band."""
_ONLY = [bytes(colour) + b"\1" + bytes(255 - colour) for colour in range(256)]
_CHARACTERS = bytes(min(63 + bits, 126) for bits in range(256))
_REPEATED = re.compile(rb"(.)\1{3,}", re.DOTALL)


class SixelPicture:
    """A picture in the size that it is drawn in; parts of it are encoded when they are shown."""

    def __init__(self, image: Image, size: tuple[int, int], colours: int) -> None:
        from PIL.Image import Quantize, Resampling

        drawing = image.getcolors(MAX_DRAWING_COLOURS) is not None
        most = MAX_COLOURS if drawing else MAX_PHOTO_COLOURS
        how = Quantize.MEDIANCUT if drawing else Quantize.FASTOCTREE
        fitting = image.resize(size, Resampling.BICUBIC, reducing_gap=2.0)
        few = fitting.quantize(min(max(colours, MIN_COLOURS), most), how)
        self.size = size
        self._pixels = few.tobytes()
        levels = few.getpalette() or []
        self._palette = b"".join(
            b"#%d;2;%d;%d;%d"
            % (at, *(round(level / 2.55) for level in levels[3 * at : 3 * at + 3]))
            for at in range(len(levels) // 3)
        )
        self._bands: dict[tuple[int, int, int, int], bytes] = {}

    def part(self, left: int, top: int, right: int, bottom: int) -> str:
        """The sequence that draws these pixels with the upper left one at the cursor."""
        if len(self._bands) > MAX_KEPT_BANDS:
            self._bands.clear()
        bands = []
        for start in range(top, bottom, BAND):
            place = left, start, right, min(start + BAND, bottom)
            if (band := self._bands.get(place)) is None:
                band = self._bands[place] = self._band(*place)
            bands.append(band)
        head = b'\x1bP0;1q"1;1;%d;%d' % (right - left, bottom - top)
        return (head + self._palette + b"-".join(bands) + b"\x1b\\").decode("ascii")

    def _band(self, left: int, top: int, right: int, bottom: int) -> bytes:
        across, length = self.size[0], right - left
        rows = [self._pixels[y * across + left : y * across + right] for y in range(top, bottom)]
        passes = []
        for colour in sorted(set(b"".join(rows))):
            only, bits = _ONLY[colour], 0
            for at, row in enumerate(rows):
                if colour in row:
                    bits |= int.from_bytes(row.translate(only), "big") << at
            line = bits.to_bytes(length, "big").translate(_CHARACTERS).rstrip(b"?")
            passes.append(b"#%d" % colour + _REPEATED.sub(_counted, line))
        return b"$".join(passes)


def _counted(run: re.Match[bytes]) -> bytes:
    return b"!%d%b" % (run.end() - run.start(), run[1])
