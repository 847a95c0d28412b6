"""What kernel files leave open: names that `jit/kernel_file.py` gives a meaning.

They are declared here for editors and checkers, and have no value, so that a kernel file cannot be
imported by mistake. Small letters name helpers and dtypes, capitals name constants.
"""

from __future__ import annotations

from typing import Any

# ------------------------------------------------------------------ memory

load_element: Any
"""Read an element of an input, by address and number, as a `value`."""
store_element: Any

load_word: Any
"""Read an element that is moved as it is."""
store_word: Any

peek_total: Any
"""Read a running total."""
store_total: Any

# ------------------------------------------------------------------ dtypes

value: Any
"""What elements are computed in: float32 for float16, else their own."""
total_value: Any
"""What totals are kept in."""
word: Any
"""The unsigned integer of an element that is moved as it is."""

# ------------------------------------------------------------------ constants

ELEMENT_BYTES: int
WORD_BYTES: int

HAS_SLOTS: bool
"""Whether some rows have totals of their own, in float64."""
FIRST_SLOT: int
IS_ROUNDED: bool
"""Whether many terms are added up in float64."""
IS_WIDENED: bool
"""Whether a few are added up in more than their own dtype."""
MAX_PLAIN_TERMS: int
