"""The protocol of a replay engine, and the values that go in and come out of one."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay._specification import EngineSpecification
from dgdr_retune.replay._trace import Trace


@frozen
class RouterParameters:
    """The eight run-time parameters of a KV router (defaults: Dynamo's flags without a shared cache).

    `temperature` is called `router_temperature` by a frontend's `/router_policy`.
    All are finite and at least 0; whoever builds one from user input checks that.
    """

    overlap_score_credit: float = 1.0
    overlap_score_credit_decay: float = 0.0
    prefill_load_scale: float = 1.0
    decode_active_request_weight: float = 0.0
    host_cache_hit_weight: float = 0.75
    disk_cache_hit_weight: float = 0.25
    shared_cache_multiplier: float = 0.0
    temperature: float = 0.0


@frozen
class Sla:
    """A latency target for goodput: `e2e_ms` alone, or any of the other two. Milliseconds; None is no bound."""

    ttft_ms: float | None = None
    itl_ms: float | None = None
    e2e_ms: float | None = None


@frozen
class Scenario:
    """What all candidates of one sweep share: the engine, how much faster requests arrive, and the SLA if any."""

    specification: EngineSpecification
    speedup: float = 1.0
    sla: Sla | None = None


@frozen
class Metrics:
    """The metrics of one replay: the names and units of Dynamo's replay summary, every value a finite float.

    A metric that does not exist for a replay (a percentile without samples, goodput without an SLA) is absent.
    """

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def get(self, name: str) -> float | None:
        """The metric, or None where this replay has none of that name."""
        return self.values.get(name)


@frozen
class RequestTimes:
    """Latencies of each request, in the window's order (request ordinal 1 first): float64 arrays of equal length.

    `itl_ms` is a request's mean inter-token latency, NaN where it had fewer than two tokens.
    """

    ttft_ms: NDArray[np.float64]
    itl_ms: NDArray[np.float64]
    e2e_ms: NDArray[np.float64]


class ReplayEngine(Protocol):
    """Replays a window under one set of router parameters.

    An engine is a small picklable value: worker processes get a copy of it. `paired` says whether two candidates
    meet the same random numbers in the same replication (common random numbers).
    Replication 0 uses the canonical router seed; replication r its own numbers, the same for every candidate.
    Errors: `ReplayError` with a reason and what to do.
    """

    @property
    def name(self) -> str:
        """The engine's name as configurations spell it."""
        ...

    @property
    def paired(self) -> bool:
        """Whether equal (router, replication) give equal metrics, and candidates share random numbers."""
        ...

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        """The metrics of one candidate in one replication."""
        ...

    def request_times(
        self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int
    ) -> RequestTimes:
        """Latencies of every request of the same replay."""
        ...
