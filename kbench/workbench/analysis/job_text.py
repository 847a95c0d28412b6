"""What the interfaces say of a `fit` or a map over several workers, in words.

The terminal's process imports this, so it must not load NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.workbench.progress.duration import clock
from kbench.workbench.protocol.runs import JobHead, JobName, OtherWorkers, WorkerRow

MAX_NAMED = 3
"""Workers that a sentence names, before it counts the others."""
NOTHING = "no fit or map over several workers yet"


def headline(head: JobHead, titled: bool = True) -> str:
    """How far a job is; without its title where that stands elsewhere.

    >>> fit = JobHead(job=1, kind="fit", name="mlp", steps=120, total=300, seconds=12.3, note="",
    ...               running=True, workers=4, lost=1)
    >>> headline(fit)
    "fit of model 'mlp': step 120 of 300, 4 workers, 1 lost, 12.3 s"
    """
    parts = [_progress(head), _workers(head), clock(head.seconds)]
    before = [*([title(head)] if titled else []), *([] if head.running else ["ended"])]
    return f"{' '.join(before)}{': ' if before else ''}{', '.join(parts)}"


def title(head: JobHead | JobName) -> str:
    """`fit of model 'mlp'`."""
    what = "of model " if head.kind == "fit" else "of "
    return f"{head.kind} {what}'{head.name}'"


def short(head: JobHead | JobName) -> str:
    """What there is room for in a list of jobs: `fit of model 'mlp', ended`."""
    return f"{title(head)}, {'running' if head.running else 'ended'}"


def _progress(head: JobHead) -> str:
    step = "step" if head.kind == "fit" else "chunk"
    of = "" if head.total is None else f" of {head.total:,}"
    return f"{step} {head.steps:,}{of}"


def _workers(head: JobHead) -> str:
    lost = f", {head.lost:,} lost" if head.lost else ""
    return f"{_counted(head.workers, 'worker')}{lost}" if head.workers else "no workers yet"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def remarks(head: JobHead, rows: Sequence[WorkerRow]) -> list[str]:
    """What should not be overlooked, a sentence each: lost and slow workers, the job's own note."""
    found = []
    lost = [row for row in rows if row.state == "lost"]
    if lost:
        found.append(f"{_named(lost)} {_verb(lost)} lost")
    slow = sorted((row for row in rows if row.slow), key=lambda row: -(row.slow or 0.0))
    if slow:
        most = f"{slow[0].slow:.1f} times the median per row"
        worst = "" if len(slow) == 1 else f"{name(slow[0])} takes "
        found.append(f"{_named(slow)} {_verb(slow)} slow: {worst}{most}")
    if head.note:
        found.append(head.note.strip().rstrip("."))
    return found


def name(row: WorkerRow) -> str:
    """`w3`, by the order in which the workers of a job were first told of."""
    return f"w{row.number}"


def _named(rows: Sequence[WorkerRow]) -> str:
    names = [name(row) for row in rows]
    more = len(names) - MAX_NAMED
    if more > 1:
        names[MAX_NAMED:] = [f"{more} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _verb(rows: Sequence[WorkerRow]) -> str:
    return "is" if len(rows) == 1 else "are"


def state(row: WorkerRow) -> str:
    """What a worker does, after what is wrong with it."""
    words = row.state
    return f"slow, {words}" if row.slow is not None else words


def line(
    row: WorkerRow | OtherWorkers, seconds: Callable[[float], str], size: Callable[[int], str]
) -> str:
    """All that is known of a worker, or of those without a row of their own.

    `seconds` and `size` write durations and bytes as the interface does elsewhere.
    """
    if isinstance(row, OtherWorkers):
        head = f"{row.count:,} more workers"
    else:
        threads = _counted(row.threads, "thread")
        head = f"{name(row)} {row.address}, {threads}, {state(row)}"
    spent = row.seconds
    each = f" ({seconds(spent / row.rows)} a row)" if row.rows else ""
    moved = f"{size(row.received)} in, {size(row.returned)} out"
    done = f"{_counted(row.tasks, 'task')}, {_counted(row.rows, 'row')}"
    share = f"{row.share:.0%} of the time"
    return f"{head}: {done} in {seconds(spent)}{each}, {share}, {moved}"


def sentence(head: JobHead, rows: Sequence[WorkerRow]) -> str:
    """All of it on one line."""
    return "; ".join([headline(head), *remarks(head, rows)])
