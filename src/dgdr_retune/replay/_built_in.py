"""The built-in engine: deterministic, paired, without a GPU or a server."""

from attrs import frozen

from dgdr_retune.replay._engine import Metrics, RequestTimes, RouterParameters, Scenario
from dgdr_retune.replay._engine_section import check_pools
from dgdr_retune.replay._errors import TraceError
from dgdr_retune.replay._metrics import request_times, summarize
from dgdr_retune.replay._outcome import Outcome
from dgdr_retune.replay._simulation import compiled_run, simulate
from dgdr_retune.replay._trace import Trace


@frozen
class BuiltInEngine:
    """Replays on this project's own simulator; a `ReplayEngine`."""

    @property
    def name(self) -> str:
        """As configurations spell it."""
        return "built-in"

    @property
    def paired(self) -> bool:
        """Random numbers are a function of (seed, replication, request ordinal, draw) alone."""
        return True

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        """The metrics of one candidate in one replication.

        Raises:
            TraceError: the window's block size is not the workers'.
            EngineSectionError: prefill and decode workers do not go together, or have calibrated timing.
        """
        return summarize(_simulate(trace, scenario, router, replication), trace, scenario)

    def request_times(
        self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int
    ) -> RequestTimes:
        """Latencies of every request of the same replay; raises as `replay`."""
        return request_times(_simulate(trace, scenario, router, replication))


def _simulate(trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Outcome:
    check_pools(scenario.specification)
    check_block_size(trace, scenario)
    return simulate(trace, scenario, router, replication, compiled_run())


def check_block_size(trace: Trace, scenario: Scenario) -> None:
    """Hashes are of blocks of one size; only workers of that size can be replayed with them.

    Raises:
        TraceError: the workers' size is another.
    """
    block_size = scenario.specification.pools[0].block_size
    if trace.block_size != block_size:
        raise TraceError(
            f"the window was recorded with KV blocks of {trace.block_size} tokens, the engine has blocks of"
            f" {block_size}: set kv_cache.block_size to {trace.block_size}"
        )
