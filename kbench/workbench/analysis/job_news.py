"""What a prompt without panes is told of jobs: a sentence when one has begun or ended."""

from __future__ import annotations

from kbench.workbench.analysis import job_rows, job_text


class JobNews:
    """Called after each input; knows what it has told already."""

    def __init__(self) -> None:
        self._told: dict[int, bool] = {}  # jobs, and whether they ran

    def __call__(self) -> list[str]:
        """Sentences about the jobs that have begun or ended since, the oldest first."""
        jobs = job_rows.known()
        news = [job for job in reversed(jobs) if self._told.get(job.number) is not job.running]
        self._told = {job.number: job.running for job in jobs}
        return [job_text.sentence(job_rows.head(job), job_rows.rows(job)[0]) for job in news]
