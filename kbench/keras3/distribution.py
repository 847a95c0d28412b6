"""Devices: there is one, `cpu:0`, whose cores all compute. A model is not shared out to more.

A mesh of this device works as on other backends: everything lies on it. Any other is refused, where
variables are made and where values are laid out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import global_state

DEVICE = "cpu:0"


def list_devices(device_type: str | None = None) -> list[str]:
    """The names of the devices of a type, "cpu", "gpu" or "tpu"; None is the default type."""
    return [DEVICE] if device_type in (None, "cpu") else []


def get_device_count(device_type: str | None = None) -> int:
    """How many devices there are of a type."""
    return len(list_devices(device_type))


def num_processes() -> int:
    """How many processes train together."""
    return 1


def process_id() -> int:
    """The number of this process among them."""
    return 0


def initialize(
    job_addresses: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Nothing for one process; NotImplementedError for several."""
    several = num_processes is not None and num_processes > 1
    if several or (job_addresses is not None and "," in job_addresses) or process_id:
        raise NotImplementedError(
            "keras.distribution.initialize: the kbench backend trains in one process, got "
            f"job_addresses={job_addresses!r}, num_processes={num_processes}, "
            f"process_id={process_id}; another backend, such as jax, trains in several"
        )


def distribute_tensor(tensor: Any, layout: Any) -> Any:
    """The tensor, which lies where the layout wants it; NotImplementedError for other devices."""
    _check(getattr(layout, "device_mesh", None), "distribute_tensor")
    return tensor


def check_variables() -> None:
    """NotImplementedError where the distribution in force is for other devices."""
    active = global_state.get_global_attribute("distribution")
    if active is not None:
        _check(active.device_mesh, type(active).__name__)


def _to_backend_mesh(device_mesh: Any) -> Any:
    _check(device_mesh, "DeviceMesh")
    return device_mesh


def _to_backend_layout(tensor_layout: Any) -> Any:
    if tensor_layout.device_mesh is None:
        raise ValueError(
            "TensorLayout: a layout without a device_mesh lies nowhere; "
            f"give device_mesh to the one of axes {tensor_layout.axes}"
        )
    _check(tensor_layout.device_mesh, "TensorLayout")
    return tensor_layout


def _check(mesh: Any, function: str) -> None:
    devices = [] if mesh is None else [str(device) for device in np.ravel(mesh.devices)]
    if mesh is None or devices == [DEVICE]:
        return
    shown = ", ".join(devices[:4]) + (", ..." if len(devices) > 4 else "")
    raise NotImplementedError(
        f"keras.distribution.{function}: the kbench backend has one device, {DEVICE}, whose cores "
        f"all compute; got a mesh of {len(devices)}: {shown}"
    )
