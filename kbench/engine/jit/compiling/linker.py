"""From object code to an image: bytes that run wherever they are put, once a few are filled in.

LLVM writes relocatable ELF files. Linking them needs none of LLVM: sections are laid side by side,
and what refers from one to another is resolved here, once. What remains for each process that loads
the image is to add its address in some places (`bases`), and to fill in the addresses of the few
functions of the C library that kernels use (`externals`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct, field

_X86_64, _RELOCATABLE = 62, 1
_PROGRAM, _SYMBOLS, _NO_BITS, _ADDENDS = 1, 2, 8, 4  # kinds of sections
_WRITE, _ALLOCATED, _THREAD_LOCAL = 1, 2, 0x400  # flags of sections
_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64 = 1, 2, 4, 24  # kinds of references

_MATHS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor "
    "fma fmod hypot ldexp lgamma log log10 log1p log2 nearbyint pow rint round sin sincos sinh "
    "sqrt tan tanh tgamma trunc"
).split()
EXTERNALS = frozenset(
    ["memcpy", "memmove", "memset", "memcmp", "bcmp", *_MATHS, *(f"{name}f" for name in _MATHS)]
)
"""What an image may refer to outside of itself: pure functions of the C library."""


class UnlinkableError(Exception):
    """This object code cannot become an image; it says why."""


class UnknownFunctionError(ValueError):
    """This object code calls what no loader may find, or finds something else for; it names it."""


class Image(Struct):
    """Code and constants, and what is missing: see the module."""

    code: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    bases: list[int] = field(default_factory=list)
    externals: dict[str, list[int]] = field(default_factory=dict)


def link(objects: Sequence[bytes], symbols: Sequence[str]) -> Image:
    """One image of some object files, each with one of the symbols that are entries.

    Raises:
        UnlinkableError: for another processor's or system's object code, or of another form.
        UnknownFunctionError: for code that refers to anything beyond its own constants and a few
            functions of the C library.
    """
    image = Image()
    for data, symbol in zip(objects, symbols, strict=True):
        try:
            _Object(data).add_to(image, symbol)
        except (struct.error, IndexError, KeyError) as error:
            raise UnlinkableError(f"not object code as expected: {error!r}") from error
    return image


class _Section(Struct, frozen=True):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    each: int


class _Symbol(Struct, frozen=True):
    name: str
    section: int
    value: int


class _Object:
    """An ELF file for 64 bits, little-endian."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise UnlinkableError("not an ELF file of 64 bits")
        kind, processor = struct.unpack_from("<HH", data, 16)
        if (kind, processor) != (_RELOCATABLE, _X86_64):
            raise UnlinkableError(f"object code for processor {processor}")
        (start,) = struct.unpack_from("<Q", data, 40)
        each, count = struct.unpack_from("<HH", data, 58)
        self.sections = [
            _Section(*struct.unpack_from("<IIQQQQIIQQ", data, start + each * number))
            for number in range(count)
        ]
        self.symbols = self._symbols()
        self.places: dict[int, int] = {}

    def _bytes(self, section: _Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def _symbols(self) -> list[_Symbol]:
        (table,) = (section for section in self.sections if section.kind == _SYMBOLS)
        names, found = self._bytes(self.sections[table.link]), []
        for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", self._bytes(table)):
            text = names[name : names.index(b"\0", name)].decode()
            found.append(_Symbol(text, section, value))
        return found

    def add_to(self, image: Image, symbol: str) -> None:
        """Lay the sections behind what the image holds, and resolve their references."""
        for number, section in enumerate(self.sections):
            if section.flags & _ALLOCATED and section.size and section.kind in (_PROGRAM, _NO_BITS):
                if section.flags & (_WRITE | _THREAD_LOCAL) or section.kind == _NO_BITS:
                    raise UnlinkableError("object code with variables of its own")
                image.code.extend(bytes(-len(image.code) % max(section.align, 16)))
                self.places[number] = len(image.code)
                image.code.extend(self._bytes(section))
        for section in self.sections:
            if section.kind == _ADDENDS and section.info in self.places:
                for place, info, addend in struct.iter_unpack("<QQq", self._bytes(section)):
                    at = self.places[section.info] + place
                    self._resolve(image, at, info & 0xFFFFFFFF, self.symbols[info >> 32], addend)
        (entry,) = (known for known in self.symbols if known.name == symbol and known.section)
        image.entries[symbol] = self.places[entry.section] + entry.value

    def _resolve(self, image: Image, at: int, kind: int, symbol: _Symbol, addend: int) -> None:
        inside = symbol.section in self.places
        if not inside and (symbol.name not in EXTERNALS or symbol.section):
            raise UnknownFunctionError(f"object code that needs {symbol.name!r}")
        target = addend + (self.places[symbol.section] + symbol.value if inside else 0)
        if kind == _ABSOLUTE_64:
            struct.pack_into("<q", image.code, at, target)
            where = image.bases if inside else image.externals.setdefault(symbol.name, [])
            where.append(at)
        elif inside and kind == _RELATIVE_64:
            struct.pack_into("<q", image.code, at, target - at)
        elif inside and kind in (_RELATIVE_32, _CALL_32):
            struct.pack_into("<i", image.code, at, target - at)
        else:
            raise UnlinkableError(f"a reference of kind {kind} to {symbol.name!r}")
