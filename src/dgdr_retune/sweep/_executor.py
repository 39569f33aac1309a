"""Who replays candidates: the protocol between a sweep and the processes, or Jobs, that do its work."""

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import frozen

from dgdr_retune.replay import Metrics, RouterParameters, Scenario


@frozen
class Job:
    """One replay: a candidate's position in its sweep, its parameters, and which replication of it."""

    candidate: int
    router: RouterParameters
    replication: int


@frozen
class Replayed:
    """A job that ended with metrics, after so many seconds of work."""

    job: Job
    metrics: Metrics
    elapsed_s: float


@frozen
class Failure:
    """Why something has no result: `reason` (snake_case) for machines, `message` for people."""

    reason: str
    message: str


@frozen
class JobFailed:
    """A job that ended without metrics: the engine refused or failed, or its process died."""

    job: Job
    failure: Failure


JobOutcome = Replayed | JobFailed


class Executor(Protocol):
    """Replays jobs of one window under one scenario.

    An outcome depends on its job alone: neither on other jobs, nor on the order, nor on `parallelism`.
    """

    @property
    def engine(self) -> str:
        """The replay engine's name."""
        ...

    @property
    def paired(self) -> bool:
        """Whether all candidates meet the same random numbers in the same replication."""
        ...

    @property
    def scenario(self) -> Scenario:
        """What all its replays share."""
        ...

    @property
    def parallelism(self) -> int:
        """How many jobs it works on at once."""
        ...

    async def replay(self, jobs: Sequence[Job], report: Callable[[JobOutcome], None]) -> None:
        """Report one outcome for each job, in any order, as soon as it is there.

        Jobs are begun in the order given. A job that fails is an outcome, never an exception. When cancelled it stops
        the work at hand at once and reports nothing more; it can be used again afterwards.
        """
        ...
