"""The loop: read the sweeper's state, then its snapshot, and bring Run and Candidates to it until there is an end."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from dgdr_retune.kube import KubeError, RefusedError
from dgdr_retune.publisher._act import Cluster
from dgdr_retune.publisher._decide import Step, decide, next_step
from dgdr_retune.publisher._errors import Exit, HopelessError, SnapshotError, UnsettledError
from dgdr_retune.publisher._file import read_file
from dgdr_retune.publisher._snapshot import Snapshot, check_follows, read_snapshot

TRIES: Final = 3
"""How often the last snapshot is tried, one poll apart."""

PASSES: Final = 5
"""How often one try observes and decides again after a conflict, a lost reply or a name that is taken."""

PAUSE_CAP_S: Final = 30.0
"""The longest time between two tries while the sweeper runs; it doubles from one poll with each that failed."""

REFUSAL_PATIENCE_S: Final = 60.0
"""How long the pod may not be read for lack of rights: a new RoleBinding takes a moment to be in force."""

_log: Final = structlog.get_logger(__name__)


class Publisher:
    """Projects one sweeper's snapshots into Candidates and the Run's status.

    It may be killed at any instruction and started again: everything it goes by is read anew.

    Args:
        cluster: where it publishes.
        snapshot_dir: where the sweeper writes.
        sweeper: name of the sweeper's container.
        poll_interval_s: seconds between two polls.
        now: the wall clock, for conditions.
    """

    def __init__(
        self, cluster: Cluster, *, snapshot_dir: Path, sweeper: str, poll_interval_s: float, now: Callable[[], datetime]
    ) -> None:
        self._cluster = cluster
        self._directory = snapshot_dir
        self._sweeper = sweeper
        self._poll_interval_s = poll_interval_s
        self._now = now
        self._accepted: Snapshot | None = None
        self._content: bytes | None = None
        self._seen: Snapshot | SnapshotError | None = None
        self._tries = 0
        self._pause_s = poll_interval_s
        self._not_before = 0.0
        self._refused_since: float | None = None
        self._said = ""

    async def run(self) -> Exit:
        """Publish until there is an end; cancelling it stops at once, and leaves the rest to a next start."""
        _log.info("started", run=self._cluster.run_name, pod=self._cluster.pod_name, directory=str(self._directory))
        try:
            while True:
                if (exit_ := await self._poll()) is not None:
                    _log.info("ended", exit_code=exit_.value, meaning=exit_.name)
                    return exit_
                await asyncio.sleep(self._poll_interval_s)
        except HopelessError as error:
            _log.error("stopped", reason=error.reason, cause=str(error))
            return Exit.NOT_RECONCILED

    async def _poll(self) -> Exit | None:
        """One poll: how the process ends, or None to go on."""
        try:
            pod = await self._cluster.own_pod(self._sweeper)
        except KubeError as error:
            self._check_patience(error)
            self._say("cannot read the own pod", reason=error.reason, cause=str(error))
            return None
        self._refused_since = None
        if pod.terminating:
            raise HopelessError("PodTerminating", "this pod is being deleted")
        step = next_step(pod.sweeper_exit, self._look(), self._accepted)
        if step.cause:
            self._say("waiting" if step.then is None else "no valid final snapshot", cause=step.cause)
        return await self._take(step, pod.run_label)

    def _look(self) -> Snapshot | SnapshotError | None:
        """What the file says now; it is read anew only where it changed."""
        try:
            content = read_file(self._directory)
            if content is None:
                return None
            if content != self._content:
                self._content, self._seen = content, self._judged(content)
        except SnapshotError as error:
            return error
        if isinstance(self._seen, Snapshot):
            self._accepted = self._seen
        return self._seen

    def _judged(self, content: bytes) -> Snapshot | SnapshotError:
        try:
            snapshot = read_snapshot(content)
            check_follows(snapshot, self._accepted)
        except SnapshotError as error:
            return error
        _log.info(
            "snapshot accepted",
            phase=snapshot.phase,
            round=snapshot.round,
            evaluated=snapshot.evaluated,
            candidates=len(snapshot.candidates),
            unmaterialized=dict(snapshot.unmaterialized),
        )
        return snapshot

    async def _take(self, step: Step, run_label: str) -> Exit | None:
        loop = asyncio.get_running_loop()
        if step.reconcile is None or (step.then is None and loop.time() < self._not_before):
            return step.then
        try:
            await self._reconcile(step.reconcile, run_label)
        except (KubeError, UnsettledError) as error:
            self._say("cannot publish", reason=error.reason, cause=str(error))
            self._not_before = loop.time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, PAUSE_CAP_S)
            self._tries += step.then is not None
            return Exit.NOT_RECONCILED if self._tries == TRIES else None
        self._pause_s = self._poll_interval_s
        if not step.cause:
            self._said = ""
        return step.then

    async def _reconcile(self, snapshot: Snapshot, run_label: str) -> None:
        """Bring Run and Candidates to a snapshot.

        Errors: `KubeError`, `UnsettledError`, `HopelessError`.
        """
        taken: frozenset[str] = frozenset()
        for _ in range(PASSES):
            observation = await self._cluster.observe(run_label, taken)
            outcome = await self._cluster.act(decide(snapshot, observation, self._now()))
            if outcome.settled:
                return
            taken |= outcome.taken
        raise UnsettledError("KeepsChanging", f"Run or Candidates changed in each of {PASSES} passes")

    def _check_patience(self, error: KubeError) -> None:
        """Stop where reading the own pod is not granted: without it the end of the sweeper would never be seen."""
        now = asyncio.get_running_loop().time()
        if not isinstance(error, RefusedError) or error.status not in (401, 403):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since >= REFUSAL_PATIENCE_S:
            raise HopelessError("Refused", f"reading the own pod is not granted: {error}") from error

    def _say(self, event: str, **what: str) -> None:
        """Log what is the matter, once until it is something else."""
        text = f"{event}: {what}"
        if text != self._said:
            self._said = text
            _log.warning(event, **what)
