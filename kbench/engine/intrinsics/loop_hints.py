"""How LLVM is to turn a loop into SIMD: each is called on the last line of the loop's body."""

from __future__ import annotations

from kbench.engine.intrinsics.primitives import input_scope
from kbench.engine.jit.numba_backend import intrinsic, ir, target_features, tell_of_loop, types

_SCOPE = "llvm.experimental.noalias.scope.decl"


def _hint(builder, name, value):
    """A hint of the loop that ends here.

    LLVM forgets it where the loop ends with a block that is empty, which it takes away, as it is
    behind a helper before that is merged into the kernel. Declaring the scope of inputs keeps the
    block, and makes no instruction.
    """
    module = builder.module
    kind = ir.FunctionType(ir.VoidType(), [ir.MetaDataType()])
    declare = module.globals.get(_SCOPE) or ir.Function(module, kind, _SCOPE)
    builder.call(declare, [input_scope(module)])
    tell_of_loop(builder, name, value)


@intrinsic
def two_vectors(typing):
    """Take two vectors of values at a time, where LLVM would take four: less is left over."""

    def codegen(context, builder, signature, arguments):
        _hint(builder, "llvm.loop.interleave.count", ir.Constant(ir.IntType(32), 2))
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def masked(typing):
    """Take what is left over in vectors too, whose unused lanes are masked.

    Only with AVX-512: other masks cost more than they save.
    """

    def codegen(context, builder, signature, arguments):
        if target_features().get("avx512vl", False):
            _hint(builder, "llvm.loop.vectorize.predicate.enable", ir.Constant(ir.IntType(1), 1))
        return context.get_dummy_value()

    return types.void(), codegen
