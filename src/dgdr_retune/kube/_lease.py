"""What stands in a Lease (coordination.k8s.io/v1), and what it is changed to. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from attrs import frozen

from dgdr_retune.kube._resource import LEASES, Json


@frozen
class Term:
    """One uninterrupted time of leading.

    Attributes:
        identity: who leads.
        number: the Lease's ``leaseTransitions``; it grows with each term, so that a later term's writes can be told
            from an earlier one's, as long as nobody deletes the Lease: a new one counts from 0.
    """

    identity: str
    number: int


@frozen
class Claim:
    """What an acquisition writes, and what tells it from any other: also from one of another process with our name.

    Attributes:
        term: what it begins.
        acquired: the Lease's ``acquireTime``.
        duration_s: how long others have to wait after they last saw the record change, whole seconds.
    """

    term: Term
    acquired: str
    duration_s: int

    def stands_in(self, lease: Mapping[str, Json]) -> bool:
        """Whether this acquisition is what the Lease says, renewed or not."""
        spec = lease.get("spec") or {}
        return (spec.get("holderIdentity"), spec.get("acquireTime"), spec.get("leaseTransitions")) == (
            self.term.identity,
            self.acquired,
            self.term.number,
        )


def micro_time(now: datetime) -> str:
    """Kubernetes' MicroTime: always UTC, always six digits."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def next_claim(lease: Mapping[str, Json] | None, identity: str, duration_s: int, now: datetime) -> Claim:
    """The acquisition that would follow on a Lease, or on none."""
    number = 0 if lease is None else ((lease.get("spec") or {}).get("leaseTransitions") or 0) + 1
    return Claim(Term(identity, number), micro_time(now), duration_s)


def new(namespace: str, name: str, claim: Claim) -> dict[str, Json]:
    """A Lease that is held from its creation."""
    head = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"namespace": namespace, "name": name}}
    return taken(head, claim)


def taken(lease: Mapping[str, Json], claim: Claim) -> dict[str, Json]:
    """The same Lease, acquired."""
    return _changed(
        lease,
        holderIdentity=claim.term.identity,
        leaseDurationSeconds=claim.duration_s,
        acquireTime=claim.acquired,
        renewTime=claim.acquired,
        leaseTransitions=claim.term.number,
    )


def renewed(lease: Mapping[str, Json], now: datetime) -> dict[str, Json]:
    """The same Lease, renewed by who holds it: always with another time, or others would see no renewal."""
    moment = micro_time(now)
    if moment == lease["spec"].get("renewTime"):
        moment = micro_time(now + timedelta(microseconds=1))
    return _changed(lease, renewTime=moment)


def released(lease: Mapping[str, Json], now: datetime) -> dict[str, Json]:
    """The same Lease without a holder; its transitions stay, so that terms go on counting."""
    return _changed(lease, holderIdentity=None, leaseDurationSeconds=1, renewTime=micro_time(now))


def is_held(lease: Mapping[str, Json]) -> bool:
    """Whether anyone has acquired and not released it."""
    return bool((lease.get("spec") or {}).get("holderIdentity"))


def patience_s(lease: Mapping[str, Json], default_s: int) -> int:
    """How long its holder may keep silent before others take it, by the holder's own word."""
    return (lease.get("spec") or {}).get("leaseDurationSeconds") or default_s


def is_same_record(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Whether nobody has acquired, renewed or released it in between, whatever was done to the Lease's metadata."""
    return one["metadata"].get("uid") == other["metadata"].get("uid") and one.get("spec") == other.get("spec")


def _changed(lease: Mapping[str, Json], **fields: Json) -> dict[str, Json]:
    spec = {**(lease.get("spec") or {}), **fields}
    return {**lease, "spec": {name: value for name, value in spec.items() if value is not None}}
