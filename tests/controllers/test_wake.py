"""Which objects a change wakes, and which it does not."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from controllers.cluster import CLAIM, NAMESPACE
from controllers.test_observe import DONE, caches, job, owner, run, run_of, thing
from dgdr_retune.api import RUN_UID_LABEL, claim_finalizer
from dgdr_retune.controllers._caches import Caches, Key
from dgdr_retune.controllers._wake import Wakes


@define
class Woken:
    caches: Caches
    jobs_per_namespace: int = 2
    woken: Counter[str] = field(factory=Counter)
    soon: list[Callable[[], None]] = field(factory=list)
    wakes: Wakes = field(init=False)

    def __attrs_post_init__(self) -> None:
        def wake(kind: str) -> Any:
            return lambda key: self.note(kind, key)

        self.wakes = Wakes(
            self.caches,
            request=wake("request"),
            run=wake("run"),
            claim=wake("claim"),
            soon=self.soon.append,
            jobs_per_namespace=self.jobs_per_namespace,
        )

    def note(self, kind: str, key: Key) -> None:
        assert key[0] == NAMESPACE
        self.woken[f"{kind} {key[1]}"] += 1

    def by(self, kind: str, old: Any, new: Any) -> set[str]:
        """Take a change in and see whom it wakes."""
        self.woken.clear()
        for before, after in getattr(self.caches, f"{kind}s").happened(
            "DELETED" if new is None else "MODIFIED", new or old
        ):
            del before
            getattr(self.wakes, f"on_{kind}")(old, None if new is None else after)
        self.settle()
        return set(self.woken)

    def settle(self) -> None:
        while self.soon:
            self.soon.pop(0)()


def claim(*finalizers: str, **metadata: Any) -> dict[str, Any]:
    return thing(CLAIM, metadata={"finalizers": list(finalizers), **metadata}, spec={}, status={})


def of(name: str) -> str:
    return claim_finalizer(f"uid-{name}")


def pod(name: str, *, run_name: str = "r", state: Any = None, **metadata: Any) -> dict[str, Any]:
    return thing(
        name,
        metadata={
            "labels": {RUN_UID_LABEL: f"uid-{run_name}"},
            "ownerReferences": [owner("Job", run_name, f"uid-job-{run_name}")],
            **metadata,
        },
        spec={"volumes": [{"persistentVolumeClaim": {"claimName": CLAIM}}]},
        status={"containerStatuses": [{"name": "sweeper", "state": state or {}}]},
    )


def test_a_request_wakes_itself_and_its_open_run() -> None:
    world = Woken(caches(runs=[run("open"), run("done", status=DONE), run("x", metadata={"ownerReferences": []})]))
    assert world.by("request", None, thing("q")) == {"request q", "run open"}


def test_a_run_wakes_itself_and_its_request() -> None:
    world = Woken(caches())
    assert world.by("run", None, run("r")) == {"run r", "request q"}


def test_the_end_of_a_run_wakes_as_many_of_those_that_wait_as_may_start() -> None:
    waiting = [run_of(name) for name in "abc"]
    world = Woken(caches(claims=[claim()], requests=[thing(name) for name in "abc"], runs=[*waiting, run("r")]))
    next_two = {"run a-run-1", "run b-run-1"}
    assert world.by("run", None, run("r", status=DONE)) == {"run r", "request q", *next_two}
    assert world.by("run", run("r"), None) == {"run r", "request q", f"claim {CLAIM}", *next_two}


def test_a_job_wakes_its_run_and_its_end_those_that_wait() -> None:
    waiting = [run_of(name) for name in "abc"]
    world = Woken(caches(claims=[claim()], requests=[thing(name) for name in "abc"], runs=[*waiting, run("r")]))
    assert world.by("job", None, job("r")) == {"run r"}
    assert world.by("job", None, job("r", ended="Failed")) == {"run r", "run a-run-1", "run b-run-1"}
    assert world.by("job", job("r"), None) >= {"run r", f"claim {CLAIM}"}


def test_a_job_of_a_run_that_is_gone_wakes_the_claim_that_it_mounts_unless_it_is_only_waited_for() -> None:
    world = Woken(caches())
    stopped = job("r", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"})
    assert world.by("job", None, job("r")) == {"run r", f"claim {CLAIM}"}
    assert world.by("job", job("r"), stopped) == {"run r"}
    assert world.by("job", stopped, None) == {"run r", f"claim {CLAIM}"}


def test_a_pod_of_a_run_that_is_gone_wakes_the_claim_when_it_is_gone_alone() -> None:
    world = Woken(caches())
    assert world.by("pod", None, pod("p")) == {"run r"}
    assert world.by("pod", pod("p"), None) == {"run r", f"claim {CLAIM}"}


def test_a_pod_wakes_its_run_when_something_changes_that_is_read_and_its_absence_the_claim() -> None:
    world = Woken(caches(runs=[run("r")]))
    first, waits = pod("p"), pod("p", state={"waiting": {"reason": "ErrImagePull"}}, resourceVersion="2")
    assert world.by("pod", None, first) == {"run r"}
    assert world.by("pod", first, pod("p", resourceVersion="2")) == set()
    assert world.by("pod", first, waits) == {"run r"}
    assert world.by("pod", waits, None) == {"run r", f"claim {CLAIM}"}


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"uid": "another"}},
        {"spec": {"volumeMode": "Block"}},
        {"status": {"phase": "Lost"}},
    ],
)
def test_what_a_run_depends_on_of_its_claim_wakes_those_that_are_not_done_or_still_hold_it(changed: Any) -> None:
    runs = [run("open"), run("done", status=DONE), run("holds", status=DONE), run("elsewhere", claim="other")]
    world = Woken(caches(runs=runs))
    before = claim(of("holds"))
    assert world.by("claim", None, before) == {f"claim {CLAIM}", "run open", "run holds"}
    after = {**before, "metadata": {**before["metadata"], **changed.get("metadata", {}), "resourceVersion": "2"}}
    after |= {name: value for name, value in changed.items() if name != "metadata"}
    assert world.by("claim", before, after) == {f"claim {CLAIM}", "run open", "run holds"}


def test_a_finalizer_that_comes_or_goes_wakes_its_own_run_alone_of_a_thousand() -> None:
    runs = [run(f"r{number}") for number in range(1000)]
    world = Woken(caches(runs=runs))
    world.by("claim", None, claim(of("r1")))
    assert world.by("claim", None, claim(of("r1"), of("r2"), resourceVersion="2")) == {f"claim {CLAIM}", "run r2"}
    assert world.by("claim", None, claim(of("r2"), resourceVersion="3")) == {f"claim {CLAIM}", "run r1"}
    assert world.by("claim", None, claim(of("r2"), labels={"a": "b"}, resourceVersion="4")) == {f"claim {CLAIM}"}


def test_a_claim_that_no_run_holds_is_not_looked_at() -> None:
    world = Woken(caches())
    assert world.by("claim", None, claim("kubernetes.io/pvc-protection")) == set()


def test_a_deletion_that_a_write_of_our_own_has_overtaken_still_wakes_the_others() -> None:
    """The cache takes our own write in, so that the event of it has nothing new; what was last heard has."""
    world = Woken(caches(runs=[run("a"), run("b")]))
    world.by("claim", None, claim(of("a"), of("b")))
    ours = claim(of("b"), deletionTimestamp="2026-01-01T00:00:00Z", resourceVersion="3")
    world.caches.claims.wrote(ours)
    world.by("claim", None, claim(of("a"), of("b"), deletionTimestamp="2026-01-01T00:00:00Z", resourceVersion="2"))
    assert world.by("claim", None, ours) >= {f"claim {CLAIM}", "run b"}


def test_a_claim_that_is_gone_wakes_the_runs_that_wait_for_it_and_the_next_in_line() -> None:
    world = Woken(caches(requests=[thing("other")], runs=[run("a"), run_of("other", claim="")], claims=[claim()]))
    world.by("claim", None, claim())
    assert world.by("claim", claim(), None) == {"run a", "run other-run-1"}


def test_many_ends_at_once_look_for_those_that_wait_once() -> None:
    woken = Woken(caches(requests=[thing("waits")], runs=[run_of("waits", claim="")]))
    for number in range(100):
        done = run(f"done-{number}", status=DONE)
        woken.wakes.on_run(None, done)
    assert len(woken.soon) == 1
    woken.settle()
    assert woken.woken["run waits-run-1"] == 1
    woken.wakes.on_run(None, run("done-later", status=DONE))
    assert len(woken.soon) == 1
