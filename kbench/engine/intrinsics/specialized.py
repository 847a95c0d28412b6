"""What kernel files leave open: names that `jit/kernel_file.py` gives a meaning.

They are declared here for editors and checkers, and have no value, so that a kernel file cannot be
imported by mistake. Small letters name helpers and dtypes, capitals name constants.
"""

from __future__ import annotations

from typing import Any

parameters: Any
"""`a, b = parameters(params)` reads the whole parameter block, in this order."""

# ------------------------------------------------------------------ memory

load_element: Any
"""Read an element of an input, by address and number, as a `value`."""
peek_element: Any
"""Likewise, from memory that the kernel writes."""
store_element: Any

load_value: Any
"""Read a number in the dtype of the arithmetic."""
peek_value: Any
"""Read an intermediate result."""
store_value: Any
scratch_values: Any
"""Memory on the stack for some thousand of these."""

load_word: Any
"""Read an element that is moved as it is."""
store_word: Any
halve_words: Any
"""Copy every second of some words."""
turn_square: Any
"""Copy a square of words, with rows and columns swapped."""
turn_square_past: Any
"""Likewise past the caches, where the rows are whole lines of these."""

load_total: Any
"""Read the total that a run begins with."""
load_other: Any
"""Read what is kept besides that."""
peek_total: Any
"""Read a running total."""
peek_other: Any
store_total: Any
store_other: Any

# ------------------------------------------------------------------ arithmetic

join: Any
"""One step of a fold."""
better_of: Any
"""The larger of two values, or the smaller."""
pair: Any
"""Two normal numbers of two uniform ones."""
within: Any
"""A normal number within two deviations of a uniform one."""
formula: Any
"""Decorator of a function that is valid for numbers and for arrays."""
select: Any
"""One of two values, by a condition."""
square_root: Any
bits_of: Any
"""The bits of a number, as an integer."""
of_bits: Any

# ------------------------------------------------------------------ dtypes

element: Any
value: Any
"""What elements are computed in: float32 for float16, else their own."""
integer: Any
"""The signed integer of as many bits as a number has."""
total_value: Any
"""What totals are kept in."""
word: Any
"""The unsigned integer of an element that is moved as it is."""

# ------------------------------------------------------------------ constants

DTYPE: str
SIZE: int
"""Bytes of an element."""
WORD_BYTES: int
"""Bytes of one that is moved as it is."""

FEW_LANES: int
"""Lanes up to which neighbouring cells are computed side by side."""
FORM: str
"""Which of several ways an item is worked on."""
IN_ROWS: bool
"""Whether lanes are neighbouring windows."""
MAY_DIVIDE: bool
"""Whether results may be divided by the number of cells."""
SCRATCH_LANES: int
"""Lanes whose running values fit the scratch of one item."""
TO_LARGEST: bool
"""Whether the largest cell of a window gets all, or each cell its share."""
NUMBERS_OF_RUN: int
"""Random numbers that one run of words gives."""
SQUARE_SIDE: int
"""Words of a side of the square that `turn_square` copies."""

ADDS: bool
"""Whether numbers are added up, or multiplied."""
BESIDES: str
"""Whether running totals have "nothing", "losses" or "exponents" beside them."""
CHUNK_ELEMENTS: int
"""Numbers that are joined before they join the total."""
LEAST_FACTOR: float
"""Sizes of factors from which on, and up to which, a chunk of them is multiplied as it is."""
MOST_FACTOR: float
FINDS_LARGEST: bool
"""Whether the largest is looked for, or the smallest."""
HAS_SLOTS: bool
"""Whether some rows have totals of their own, in float64."""
FIRST_SLOT: int
IS_ROUNDED: bool
"""Whether many terms are added up in float64."""
IS_WIDENED: bool
"""Whether a few are added up in more than their own dtype."""
MAX_PLAIN_TERMS: int
