"""Shorter ways through Numba and LLVM, for the process that compiles.

Each gives what Numba's own way gives: the same machine code to the byte, though with `store_once` a
kernel may have a few instructions less. They reach into Numba: where a name is missing that one
needs, Numba's own way remains.
"""

from __future__ import annotations

import copy
import functools
import gc
from collections.abc import Callable, Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

_FIRST_GENERATION = 30_000
"""Objects between two looks for circles of garbage.

Python looks each 700 objects, an eighth of the time, as Numba makes many objects that stay."""

_SECOND_GENERATION, _THIRD_GENERATION = 10, 10
_NOTHING, _VARIABLE, _INSTRUCTION, _SEQUENCE, _MAPPING = range(5)  # what a value may hold


def take_all() -> list[str]:
    """Take all that this Numba allows; gives the names of those that it does not."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_FIRST_GENERATION, _SECOND_GENERATION, _THIRD_GENERATION)
    return [shortcut.__name__ for shortcut in _SHORTCUTS if not _is_taken(shortcut)]


def _is_taken(shortcut: Callable[[], None]) -> bool:
    try:
        shortcut()
    except (AttributeError, ImportError):
        return False
    return True


def _found(path: str) -> Any:
    """A module of Numba, or what it defines, as `numba.core.ir:Inst`."""
    module, _, name = path.partition(":")
    value = import_module(module)
    return getattr(value, name) if name else value


def _look_for(names: set[str], *functions: Callable[..., Any]) -> None:
    """AttributeError where Numba's own functions do not read what a shortcut is to read.

    These are attributes that its objects have only once they are at work.
    """
    missing = names.difference(*(function.__code__.co_names for function in functions))
    if missing:
        raise AttributeError(", ".join(sorted(missing)))


def list_variables() -> None:
    """Find the variables of an instruction without a call and a list for each value in it."""
    ir = _found("numba.core.ir")
    variable, instruction = ir.Var, ir.Inst
    _ = instruction._rec_list_vars
    kinds: dict[type, int] = {variable: _VARIABLE}

    def kind_of(kind: type) -> int:
        if issubclass(kind, variable):
            found = _VARIABLE
        elif issubclass(kind, instruction):
            found = _INSTRUCTION
        elif issubclass(kind, list | tuple):
            found = _SEQUENCE
        else:
            found = _MAPPING if issubclass(kind, dict) else _NOTHING
        kinds[kind] = found
        return found

    def gather(values: Iterable[Any], into: list[Any]) -> None:
        for value in values:
            kind = kinds.get(type(value), -1)
            if kind < 0:
                kind = kind_of(type(value))
            if kind == _VARIABLE:
                into.append(value)
            elif kind == _INSTRUCTION:
                into.extend(value.list_vars())
            elif kind == _SEQUENCE:
                gather(value, into)
            elif kind == _MAPPING:
                gather(value.values(), into)

    def variables(self: Any, value: Any) -> list[Any]:
        into: list[Any] = []
        if type(value) is dict:
            gather(value.values(), into)
        else:
            gather((value,), into)
        return into

    instruction._rec_list_vars = variables


def remember_calls() -> None:
    """Remember which signature a call of an operator, a helper or a cast has, for its operands.

    Numba tries all loops of all ufuncs that may be meant, at each `a + b`. What it finds depends on
    the function and the types alone, but for `overload`: that compiles for the flags of the caller.
    """
    context = _found("numba.core.typing.context:BaseContext")
    overload = _found("numba.core.typing.templates:_OverloadFunctionTemplate")
    types = _found("numba.core.types")
    kinds, own = {types.Function, types.NumberClass}, context.resolve_function_type
    known: dict[Any, Any] = {}

    def is_lasting(function: Any, signature: Any) -> bool:
        for template in getattr(function, "templates", ()):
            if issubclass(template, overload):
                compiled = getattr(template, "_compiled_overloads", None)
                if compiled is None or signature.args in compiled:
                    return False
        return True

    def resolve(self: Any, function: Any, args: Any, kws: Any) -> Any:
        if kws or type(function) not in kinds:
            return own(self, function, args, kws)
        key = (self, function, tuple(args))
        signature = known.get(key)
        if signature is None:
            signature = own(self, function, args, kws)
            if signature is not None and is_lasting(function, signature):
                known[key] = signature
        return signature

    context.resolve_function_type = resolve


def forget_lifetimes() -> None:
    """Do not find out after each pass which variables live where each block begins.

    Only generators and compiling in "object mode" ask for it. Where variables are deleted is found
    when that is asked for.
    """
    postproc = _found("numba.core.postproc")
    processor, lifetime = postproc.PostProcessor, postproc.VariableLifetime
    canonical, own = _found("numba.core.transforms:canonicalize_cfg"), processor.run
    _look_for({"is_generator", "variable_lifetime", "generator_info", "_insert_var_dels"}, own)

    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        code = self.func_ir
        if code.is_generator:
            own(self, emit_dels, extend_lifetimes)
            return
        code.blocks = canonical(code.blocks)
        code.variable_lifetime = lifetime(code.blocks)
        code.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)

    processor.run = run


def share_scope() -> None:
    """Copy the blocks of a part that is put into its caller without all of its variables for each.

    They have one scope, which is used for nothing else: Numba reads a part anew each time.
    """
    block, inlining = _found("numba.core.ir:Block"), _found("numba.core.inline_closurecall")
    _ = inlining.copy.deepcopy

    def copied(value: Any) -> Any:
        known = {id(value.scope): value.scope} if type(value) is block else {}
        return copy.deepcopy(value, known)

    inlining.copy = SimpleNamespace(deepcopy=copied, copy=copy.copy)


def store_once() -> None:
    """Write no lines that let go of what a variable held, where that is but a number.

    Numba reads each variable before it stores, and clears it behind its last use, since it may hold
    an object. LLVM takes these lines out again.
    """
    lower = _found("numba.core.lowering:Lower")
    own_store, own_delete = lower.storevar, lower.delvar
    names = {"typeof", "_alloca_var", "getvar", "_singly_assigned_vars", "_blk_local_varmap"}
    _look_for(names, own_store, own_delete)
    known: dict[Any, bool] = {}

    def is_plain(self: Any, kind: Any) -> bool:
        plain = known.get(kind)
        if plain is None:
            plain = not self.context.data_model_manager[kind].contains_nrt_meminfo()
            known[kind] = plain
        return plain

    def store(self: Any, value: Any, name: str, argidx: int | None = None) -> None:
        kind = self.typeof(name)
        if argidx is not None or name in self._singly_assigned_vars or not is_plain(self, kind):
            own_store(self, value, name, argidx)
            return
        self._alloca_var(name, kind)
        place = self.getvar(name)
        if value.type != place.type.pointee:
            own_store(self, value, name, argidx)  # which says what is wrong
        self.builder.store(value, place)

    def delete(self: Any, name: str) -> None:
        kind = self.typeof(name)
        if not is_plain(self, kind):
            own_delete(self, name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)
            self._alloca_var(name, kind)

    lower.storevar, lower.delvar = store, delete


def remember_signatures() -> None:
    """Look once whether a function that writes instructions takes a `loc`, not at each use."""
    base = _found("numba.core.base")
    base._has_loc = functools.cache(base._has_loc)


_SHORTCUTS = (
    list_variables,
    remember_calls,
    forget_lifetimes,
    share_scope,
    store_once,
    remember_signatures,
)
