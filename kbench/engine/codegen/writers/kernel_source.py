"""The source of a program's kernel: its schedule decides who writes it."""

from __future__ import annotations

from kbench.engine.codegen.loop_program import LoopProgram, Schedule, field_names
from kbench.engine.codegen.writers.loop_source import NestWriter
from kbench.engine.codegen.writers.row_source import RowWriter
from kbench.engine.codegen.writers.writer import Module


def source(program: LoopProgram) -> str:
    """The module that defines `run`, the range kernel of a program."""
    module = Module()
    nest = program.schedule is Schedule.NEST
    writer = NestWriter(program, module) if nest else RowWriter(program, module)
    if program.flushes:
        module.add(f"modes = {module.call('begin_flushing')}")
    writer.run()
    if program.flushes:
        module.add(module.call("end_flushing", "modes"))
    return module.text(writer.title, field_names(program))
