"""Questions about what has run: recorded runs step by step, and jobs of a cluster."""

from __future__ import annotations

from kbench.workbench.protocol.question import Answer, Question
from kbench.workbench.protocol.record import Record


class TraceReply(Answer):
    recording: bool


class Trace(Question[TraceReply], verb="trace"):
    """Turn the recording of runs on or off."""

    on: bool = True


# ------------------------------------------------------------------ the plan


class PlanPart(Record):
    """An operation that a step runs together with others."""

    op: str
    spec: str
    place: str | None


class PlanStep(Record):
    """What one step did; `source` is what was generated for it, cut where it is long."""

    step: int
    op: str
    form: str
    spec: str
    seconds: float
    bytes: int
    flops: int
    gb_per_s: float | None
    gflop_per_s: float | None
    place: str | None
    source: str | None
    parts: list[PlanPart]


class Kernel(Record):
    """A kernel that became ready; `loaded`: it was compiled before, and only read."""

    name: str
    seconds: float
    loaded: bool


class PlanRun(Record):
    """A run: its steps (of many the slowest, `cut` are left out), and what was compiled for it."""

    function: str
    seconds: float
    bytes: int
    peak_bytes: int
    forms: dict[str, int]
    rows: list[PlanStep]
    cut: int
    run: int
    kernels: list[Kernel]
    compiled: int
    loaded: int
    kernel_seconds: float
    pending: int
    called: str


class RunHead(Record):
    run: int
    function: str
    seconds: float


class Limits(Record):
    """What the machine can do at best; `cached`: bytes moved, and the rate from the caches."""

    copy_gb_per_s: float
    gemm_float32: float
    gemm_float64: float
    threads: int
    read_gb_per_s: float = 0.0
    cached: list[list[float]] | None = None
    cache: int = 0


class JobHead(Record):
    """A job without its workers; `leads`: it is to be shown before the last run."""

    job: int
    kind: str
    name: str
    seconds: float
    steps: int
    total: int | None
    running: bool
    workers: int
    lost: int
    note: str
    leads: bool = False


class PlanReply(Answer):
    """A run and what else is known; or, where a `step` was asked for, its `source` alone."""

    recording: bool = False
    functions: list[str] | None = None
    runs: list[RunHead] | None = None
    run: PlanRun | None = None
    limits: Limits | None = None
    job: JobHead | None = None
    step: int | None = None
    source: str = ""


class Plan(Question[PlanReply], verb="plan"):
    """A recorded run: the last, the last of a function, or the one of a number.

    With `step` only the source of that step. `record` turns recording on or off; `measure` finds
    out what this machine can do at best, in less than a second, while no cell runs.
    """

    function: str | None = None
    record: bool | None = None
    run: int | None = None
    step: int | None = None
    measure: bool = False


# ------------------------------------------------------------------ jobs


class JobName(Record):
    job: int
    kind: str
    name: str
    running: bool


class WorkerRow(Record):
    """What one worker has done; `slow`: its rows take so many times the median time."""

    number: int
    address: str
    threads: int
    state: str
    tasks: int
    rows: int
    seconds: float
    share: float
    received: int
    returned: int
    slow: float | None = None


class OtherWorkers(Record):
    """The sum of the workers that have no row."""

    count: int
    tasks: int
    rows: int
    seconds: float
    share: float
    received: int
    returned: int


class JobsReply(Answer):
    """All jobs, the one that leads, and the workers of the one that is shown."""

    jobs: list[JobName]
    job: JobHead | None
    shown: JobHead | None
    rows: list[WorkerRow]
    others: OtherWorkers | None


class Jobs(Question[JobsReply], verb="jobs"):
    """The workers of a job, at most so many: of the one that leads, or of a number."""

    job: int | None = None
    most: int | None = None
