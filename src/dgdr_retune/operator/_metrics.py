"""What the operator counts, for Prometheus."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dgdr_retune.kube import Resource

_CALL_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
_RECONCILE_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Leading(Protocol):
    """What a leader's controllers can be asked."""

    def queue_depths(self) -> Mapping[str, int]:
        """Keys that wait, by controller."""
        ...

    def runs_by_phase(self) -> Mapping[tuple[str, str], int]:
        """Runs by namespace and phase."""
        ...

    def claim_holders(self) -> Mapping[tuple[str, str], int]:
        """Runs that hold a claim, by its namespace and name; claims that none holds are left out."""
        ...


class Metrics(Collector):
    """All series of one operator, in a registry of their own.

    Those of objects are read from the leader's caches when they are asked for: they go with their objects, and with the
    leadership.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading: Leading | None = None
        """The controllers of the term that this process leads; None where it does not."""
        self._calls = Histogram(
            "dgdr_retune_api_call_seconds",
            "Calls to the API server by verb, resource and outcome (HTTP status, not_sent or lost).",
            ("verb", "resource", "outcome"),
            buckets=_CALL_SECONDS,
            registry=self.registry,
        )
        self._reconciles = Histogram(
            "dgdr_retune_reconcile_seconds",
            "Looks at one object by controller and outcome (done, again or failed).",
            ("controller", "outcome"),
            buckets=_RECONCILE_SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)

    def called(self, verb: str, resource: Resource, outcome: str, seconds: float) -> None:
        """A call to the API server, as `kube.Api` tells it."""
        self._calls.labels(verb, resource.plural, outcome).observe(seconds)

    def reconciled(self, controller: str, outcome: str, seconds: float) -> None:
        """A look at one object, as `controllers.Controllers` tells it."""
        self._reconciles.labels(controller, outcome).observe(seconds)

    def collect(self) -> Iterator[Any]:
        """The series that follow objects."""
        leader = GaugeMetricFamily("dgdr_retune_leader", "Whether this operator leads: 1 or 0.")
        depth = GaugeMetricFamily("dgdr_retune_queue_depth", "Keys that wait, by controller.", labels=["controller"])
        runs = GaugeMetricFamily("dgdr_retune_runs", "Runs by namespace and phase.", labels=["namespace", "phase"])
        held = GaugeMetricFamily(
            "dgdr_retune_claim_holders",
            "Runs by which a claim is protected; no series for a claim that is not.",
            labels=["namespace", "claim"],
        )
        leader.add_metric([], 0.0 if self.leading is None else 1.0)
        if self.leading is not None:
            for controller, keys in self.leading.queue_depths().items():
                depth.add_metric([controller], keys)
            for labels, count in self.leading.runs_by_phase().items():
                runs.add_metric(labels, count)
            for labels, count in self.leading.claim_holders().items():
                held.add_metric(labels, count)
        yield from (leader, depth, runs, held)
