"""What of the engine a value is, so that type checkers know it afterwards.

The functions are those of `engine/inspect/describe.py`, which load no class and ask no object: only
their types are told anew here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard, cast

from kbench.engine.inspect import describe

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.graph.variables import Variable

is_tensor = cast("Callable[[object], TypeGuard[Tensor]]", describe.is_tensor)
is_variable = cast("Callable[[object], TypeGuard[Variable]]", describe.is_variable)
is_function = cast("Callable[[object], TypeGuard[Function]]", describe.is_function)
