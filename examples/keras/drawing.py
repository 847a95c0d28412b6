"""Pictures that the examples draw by themselves: symbols in any place, size and slant; strings."""

import numpy as np

# Ten digits and ten letters, five dots wide and seven high; a row of dots is a number in binary.
SYMBOLS = "0123456789ACEFHKLPTX"
ROWS = """
14 17 19 21 25 17 14|4 12 4 4 4 4 14|14 17 1 2 4 8 31|31 2 4 2 1 17 14
2 6 10 18 31 2 2|31 16 30 1 1 17 14|6 8 16 30 17 17 14|31 1 2 4 8 8 8
14 17 17 14 17 17 14|14 17 17 15 1 2 12|14 17 17 31 17 17 17|14 17 16 16 16 17 14
31 16 16 30 16 16 31|31 16 16 30 16 16 16|17 17 17 31 17 17 17|17 18 20 24 20 18 17
16 16 16 16 16 16 31|30 17 17 30 16 16 16|31 4 4 4 4 4 4|17 17 10 4 10 17 17
"""
GLYPHS = np.array(
    [
        [[int(row) >> column & 1 for column in (4, 3, 2, 1, 0)] for row in glyph.split()]
        for line in ROWS.strip().splitlines()
        for glyph in line.split("|")
    ],
    dtype="float32",
)


def symbols(which, size, numbers):
    """Draw one symbol per picture, each turned, slanted, scaled and moved at random.

    Returns float32[pictures, size, size, 1] from 0 to 1. `which` are places in SYMBOLS.
    """
    count = len(which)
    angle, slant = numbers.normal(0, 0.12, count), numbers.normal(0, 0.12, count)
    scale = size / 9 * numbers.uniform(0.8, 1.1, count)
    shift = numbers.uniform(-size / 12, size / 12, (2, count, 1, 1))
    rows, columns = np.mgrid[:size, :size] - (size - 1) / 2
    y, x = rows - shift[0], columns - shift[1]
    sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    scale, slant = scale[:, None, None], slant[:, None, None]
    y, x = (cosine * y + sine * x) / scale, (cosine * x - sine * y) / scale
    pictures = _between(GLYPHS[which], y + 3, x + slant * y + 2)
    pictures += numbers.normal(0, 0.05, pictures.shape)
    return np.clip(pictures, 0, 1).astype("float32")[..., None]


def _between(glyphs, y, x):
    """The value of each glyph at places between its dots, blending its four neighbours."""
    padded = np.pad(glyphs, [(0, 0), (1, 2), (1, 2)])
    y, x = np.clip(y + 1, 0, 8.999), np.clip(x + 1, 0, 6.999)
    row, column = y.astype(int), x.astype(int)
    y, x, glyph = y - row, x - column, np.arange(len(glyphs))[:, None, None]
    top = padded[glyph, row, column] * (1 - x) + padded[glyph, row, column + 1] * x
    below = padded[glyph, row + 1, column] * (1 - x) + padded[glyph, row + 1, column + 1] * x
    return top * (1 - y) + below * y


def line(text, width, numbers):
    """Draw a string as float32[16, width], each symbol a little higher or lower than the last."""
    picture, left = np.zeros((16, width), "float32"), numbers.integers(1, 6)
    for symbol in text:
        place = [SYMBOLS.index(symbol)]
        drawn = symbols(place, 16, numbers)[0, :, :, 0]
        picture[:, left : left + 16] = np.maximum(picture[:, left : left + 16], drawn)
        left += numbers.integers(10, 13)
    return picture


def show(picture):
    """A picture as text, two rows of dots per line."""
    shades = np.array(list(" .:-=+*#%@"))
    rows = picture.reshape(picture.shape[0], -1)[::2]
    return "\n".join("".join(row).rstrip() for row in shades[(rows * 9.99).astype(int)])
