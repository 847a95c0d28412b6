"""Repairs of Keras 2.3.1 where h5py has moved on: it gives text as str where Keras decodes bytes.

What was stored as ASCII, as bytes are, is given back as bytes; text stored as UTF-8 stays text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from kbench.keras_client.fixes import Keras, Stand

if TYPE_CHECKING:
    import h5py


def stored(attributes: h5py.AttributeManager, name: str) -> object:
    """An attribute as h5py 2 gave it: bytes where bytes were stored."""
    import h5py

    value = attributes[name]
    kind = attributes.get_id(name).get_type()
    if not isinstance(kind, h5py.h5t.TypeStringID) or kind.get_cset() != h5py.h5t.CSET_ASCII:
        return value
    return _encoded(value)


def _encoded(value: object) -> object:
    """Text, or an array of it, as bytes; what was no UTF-8 comes back as it was stored."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.array([_encoded(text) for text in value.ravel()], object).reshape(value.shape)
    return value


# What Keras decodes as soon as it has read it.
_TEXTS = "model_config training_config keras_version backend layer_names weight_names".split()


def _decodable(value: object, name: str) -> object:
    """An attribute as it is; ValueError where Keras would decode it and cannot."""
    if name in _TEXTS:
        for text in np.ravel(np.asarray(value, object)):
            try:
                text.decode() if isinstance(text, bytes) else None
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"the attribute {name!r} of this HDF5 file is damaged: it is not UTF-8 "
                    f"({error.reason} {error.object[error.start]:#04x} at {error.start})"
                ) from None
    return value


class _Attributes:
    """The attributes of a group, their text as bytes, whoever wrote the file."""

    def __init__(self, own: h5py.AttributeManager) -> None:
        self._own = own

    def __getitem__(self, name: str) -> object:
        return _decodable(_encoded(self._own[name]), name)

    def __contains__(self, name: object) -> bool:
        return name in self._own

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)


class _Group:
    """A group whose attributes, and those of the groups in it, are read as above."""

    def __init__(self, own: h5py.Group) -> None:
        self._own = own
        self.attrs = _Attributes(own.attrs)

    def __getitem__(self, name: object) -> object:
        import h5py

        found = self._own[name]
        return _Group(found) if isinstance(found, h5py.Group) else found

    def __contains__(self, name: object) -> bool:
        return name in self._own

    def __len__(self) -> int:
        return len(self._own)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)


def saving(module: ModuleType) -> None:
    """engine/saving.py:1183, 722 ...: `.decode` of attributes while weights are loaded."""
    for name in ("load_weights_from_hdf5_group", "load_weights_from_hdf5_group_by_name"):
        setattr(module, name, _on_group(getattr(module, name)))


def _on_group(load: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(load)
    def call(f: object, *arguments: object, **keywords: object) -> object:
        import h5py

        group = _Group(f) if isinstance(f, h5py.Group) else f
        return load(group, *arguments, **keywords)

    return call


def io_utils(module: ModuleType) -> None:
    """utils/io_utils.py: H5Dict reads attributes; a file in memory is opened to be written."""
    import h5py

    dictionary = module.H5Dict
    original = dictionary.__getitem__

    def __getitem__(self: Keras, name: str) -> object:
        if isinstance(self.data, h5py.Group) and name in self.data.attrs:
            value = _decodable(stored(self.data.attrs, name), name)
            if isinstance(value, np.generic):
                return value.item()
            if isinstance(value, np.ndarray) and _is_bytes(value):
                return value.tolist()
            return value
        return original(self, name)

    dictionary.__getitem__ = __getitem__
    module.np = Stand(np, string_=np.bytes_)  # type: ignore[attr-defined]  # :296, gone

    def save_to_binary_h5py(save_function: Callable[..., object], stream: BinaryIO) -> object:
        # :446 relies on h5py's old default mode and on `File.fid`, both gone.
        with h5py.File("in-memory-h5py", "w", driver="core", backing_store=False) as file:
            returned = save_function(file)
            file.flush()
            stream.write(file.id.get_file_image())
        return returned

    module.save_to_binary_h5py = save_to_binary_h5py  # type: ignore[attr-defined]


def _is_bytes(value: np.ndarray) -> bool:
    """Whether it is an array of bytes, of one length or of any, as h5py 3 keeps a list of them."""
    return value.dtype.kind == "S" or (
        value.dtype == object and all(isinstance(text, bytes) for text in value.ravel())
    )
