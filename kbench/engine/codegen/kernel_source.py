"""The source of a program's kernel: its schedule decides who writes it."""

from __future__ import annotations

from kbench.engine.codegen.loop_program import LoopProgram, Schedule, field_names
from kbench.engine.codegen.loop_source import Nest
from kbench.engine.codegen.row_source import Rows
from kbench.engine.codegen.writer import Module


def source(program: LoopProgram) -> str:
    """The module that defines `run`, the range kernel of a program."""
    module = Module()
    nest = program.schedule is Schedule.NEST
    walk = Nest(program, module) if nest else Rows(program, module)
    walk.run()
    return module.text(walk.title, field_names(program))
