"""Which objects are worth a look after a change.

A change that we made ourselves is reported with nothing before it but itself, for the caches have taken it in: so what
matters here is what an object is now, and for claims what was last seen of them.
"""

from collections.abc import Callable

from dgdr_retune.api import REQUEST, claim_finalizer, is_claim_finalizer
from dgdr_retune.controllers._caches import (
    HELD_BY,
    OF_REQUEST,
    ON_CLAIM,
    Caches,
    Key,
    Object,
    claims_of_job,
    holder_key,
    key_of,
    next_in_line,
    text_of,
)
from dgdr_retune.controllers._observation import ClaimState
from dgdr_retune.controllers._projections import is_completed, mounted_claims
from dgdr_retune.controllers._states import claim_state, controller, job_end, run_uid_label, trace_claim

Change = Object | None
Wake = Callable[[Key], None]


class Wakes:
    """Wakes the objects that a change concerns, and no others.

    Args:
        caches: what the watches have seen; the change is in them already.
        request: wakes a Request.
        run: wakes a Run.
        claim: wakes a claim.
        soon: calls what it is given once all changes at hand are told, as an event loop's `call_soon`.
        jobs_per_namespace: how many Runs may start where one has ended.
    """

    def __init__(
        self,
        caches: Caches,
        *,
        request: Wake,
        run: Wake,
        claim: Wake,
        soon: Callable[[Callable[[], None]], object],
        jobs_per_namespace: int,
    ) -> None:
        self._caches = caches
        self._request = request
        self._run = run
        self._claim = claim
        self._soon = soon
        self._jobs_per_namespace = jobs_per_namespace
        self._claims: dict[Key, ClaimState] = {}
        self._with_room: dict[str, None] = {}

    def on_request(self, old: Change, new: Change) -> None:
        """A Request concerns its open Run."""
        request = _either(old, new)
        self._request(key_of(request))
        for run in self._caches.runs.select(OF_REQUEST, request["metadata"]["uid"]):
            if not is_completed(run):
                self._run(key_of(run))

    def on_run(self, old: Change, new: Change) -> None:
        """A Run concerns its Request; its end the Runs that wait for its place; its absence what it held."""
        run = _either(old, new)
        namespace, _ = key_of(run)
        self._run(key_of(run))
        owner = controller(run)
        if owner.get("kind") == REQUEST.name:
            self._request((namespace, owner["name"]))
        if new is None and (claim := trace_claim(run)):
            self._claim((namespace, claim))
        if new is None or is_completed(run):
            self._wake_next(namespace)

    def on_job(self, old: Change, new: Change) -> None:
        """A Job concerns its Run, or the claims that it mounts; its end the Runs that wait.

        It concerns the claims if it is gone, or if its Run is and nobody has stopped it yet.
        """
        job = _either(old, new)
        namespace, name = key_of(job)
        self._run((namespace, name))
        if new is None or not ("deletionTimestamp" in new["metadata"] or self._has_run(new)):
            self._wake_claims(namespace, claims_of_job(job))
        if new is None or job_end(job) is not None:
            self._wake_next(namespace)

    def on_pod(self, old: Change, new: Change) -> None:
        """A Pod concerns its Run, by way of the Job of its name; its absence the claim that it mounted."""
        pod = _either(old, new)
        if old is not None and new is not None and _unchanged(old, new):
            return
        owner = controller(pod)
        if owner.get("kind") == "Job":
            self._run((key_of(pod)[0], owner["name"]))
        if new is None:
            self._wake_claims(key_of(pod)[0], mounted_claims(pod["spec"]))

    def on_claim(self, old: Change, new: Change) -> None:
        """A claim concerns those of its Runs that are not done or still hold it.

        A finalizer that came or went concerns its own Run alone: a thousand Runs of one claim do not wake each other.
        """
        key = key_of(_either(old, new))
        before, after = self._claims.pop(key, None), None if new is None else claim_state(new)
        if after is not None:
            self._claims[key] = after
        if any(is_claim_finalizer(each) for state in (before, after) if state is not None for each in state.finalizers):
            self._claim(key)
        if _condition(before) == _condition(after):
            self._wake_changed(key[0], _finalizers(before) ^ _finalizers(after))
            return
        held = _finalizers(after)
        for run in self._caches.runs.select(ON_CLAIM, text_of(key)):
            if not is_completed(run) or claim_finalizer(run["metadata"]["uid"]) in held:
                self._run(key_of(run))
        self._wake_next(key[0])

    def _wake_changed(self, namespace: str, finalizers: frozenset[str]) -> None:
        for finalizer in sorted(finalizers):
            for run in self._caches.runs.select(HELD_BY, holder_key(namespace, finalizer)):
                self._run(key_of(run))

    def _has_run(self, job: Object) -> bool:
        holder = holder_key(key_of(job)[0], claim_finalizer(run_uid_label(job)))
        return bool(self._caches.runs.select(HELD_BY, holder))

    def _wake_claims(self, namespace: str, names: tuple[str, ...]) -> None:
        for name in names:
            self._claim((namespace, name))

    def _wake_next(self, namespace: str) -> None:
        """Once for all changes at hand: at the start thousands of Runs that are done are told of in one go."""
        if not self._with_room:
            self._soon(self._wake_first_in_line)
        self._with_room[namespace] = None

    def _wake_first_in_line(self) -> None:
        namespaces, self._with_room = self._with_room, {}
        for namespace in namespaces:
            for run in next_in_line(self._caches, namespace, self._jobs_per_namespace):
                self._run(key_of(run))


def _either(old: Change, new: Change) -> Object:
    if new is not None:
        return new
    if old is not None:
        return old
    raise ValueError("a change is of something")


def _condition(claim: ClaimState | None) -> tuple[str, bool, bool, bool] | None:
    """What a Run depends on."""
    return None if claim is None else (claim.ref.uid, claim.deleting, claim.block, claim.lost)


def _finalizers(claim: ClaimState | None) -> frozenset[str]:
    return frozenset() if claim is None else frozenset(filter(is_claim_finalizer, claim.finalizers))


def _unchanged(old: Object, new: Object) -> bool:
    return _without_version(old) == _without_version(new)


def _without_version(of: Object) -> Object:
    metadata = {name: value for name, value in of["metadata"].items() if name != "resourceVersion"}
    return {**of, "metadata": metadata}
