"""Differences between two records."""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCES = {"float32": 2e-4, "float64": 2e-6, "float16": 2e-2, "bfloat16": 1e-1}
TOLERANCES |= {"mixed_float16": 2e-2, "mixed_bfloat16": 1e-1}
"""Share of the largest element by which numbers may differ after some steps, by the policy."""


def differences(
    one: dict[str, Any], other: dict[str, Any], policy: str, scale: float = 1
) -> list[str]:
    """A line for each name under which the two have other values, by `scale` tolerances."""
    lines = []
    if one.keys() != other.keys():
        lines.append(f"names: {sorted(set(one) ^ set(other))[:6]}")
    for name in [name for name in one if name in other]:
        a, b = np.asarray(one[name]), np.asarray(other[name])
        if a.shape != b.shape:
            lines.append(f"{name}: {a.dtype}{a.shape} and {b.dtype}{b.shape}")
            continue
        if a.dtype != b.dtype and name.split("/")[0] in ("before", "called"):
            lines.append(f"{name}: dtype {a.dtype} and {b.dtype}")
        if a.dtype.kind in "USO" or not a.size:  # words
            continue
        a, b = a.astype("float64"), b.astype("float64")
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            lines.append(f"{name}: not finite {(~np.isfinite(a)).sum()}, {(~np.isfinite(b)).sum()}")
            continue
        if not finite.any():
            continue
        gap, size = np.abs(a[finite] - b[finite]).max(), np.abs(b[finite]).max()
        if gap > scale * TOLERANCES[policy] * (size + 0.01):
            lines.append(f"{name}: {gap:.3g} of {size:.3g}")
    return lines


def inconsistencies(found: dict[str, Any]) -> list[str]:
    """Where one backend gives other values, shapes or dtypes at once than in a step."""
    lines = []
    for kind in ("step", "spec"):
        if f"{kind}/error" in found and "eager/error" not in found:
            lines.append(f"{kind} fails: {found[f'{kind}/error']}")
    for name in [name for name in found if name.startswith("eager/") and "error" not in name]:
        for kind in ("step", "spec"):
            other = found.get(name.replace("eager", kind))
            if other is None:
                continue
            one = found[name]
            if one.dtype.kind in "US":
                # operators of known arrays are NumPy's, which keeps 64 bits
                if str(one).replace("64", "32") != str(other).replace("64", "32"):
                    lines.append(f"{name}: {one}, in a {kind} {other}")
            else:
                lines += differences({name: other}, {name: one}, "float32", 0.1)
    return lines
