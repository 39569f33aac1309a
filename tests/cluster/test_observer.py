"""The observer of a real cluster sees what it is there for."""

from typing import Any

import pytest
from tests.cluster.observer import CLAIMS, JOBS, PODS, RUNS, Event, violations

from dgdr_retune.api import RUN_UID_LABEL, claim_finalizer

Json = Any

UID = "5f0c7a3e-0000-4000-8000-000000000001"


def _object(path: str, name: str, **metadata: Json) -> dict[str, Json]:
    return {"metadata": {"uid": f"{path}/{name}", "namespace": "ns", "name": name, **metadata}}


def _run(**status: Json) -> dict[str, Json]:
    source = {"persistentVolumeClaim": {"claimName": "traces", "subPath": "a"}}
    return {**_object(RUNS, "run", uid=UID), "spec": {"workload": {"trace": {"source": source}}}, "status": status}


def _claim(*finalizers: str, **metadata: Json) -> dict[str, Json]:
    return _object(CLAIMS, "traces", finalizers=list(finalizers), **metadata)


def _job(*ended: str) -> dict[str, Json]:
    conditions = [{"type": each, "status": "True"} for each in ended]
    return {**_object(JOBS, "run", labels={RUN_UID_LABEL: UID}), "status": {"conditions": conditions}}


def _pod() -> dict[str, Json]:
    return _object(PODS, "run-x", labels={RUN_UID_LABEL: UID})


def _events(*writes: tuple[str, dict[str, Json]] | tuple[str, dict[str, Json], str]) -> list[Event]:
    return [Event(number, write[0], len(write) > 2, write[1]) for number, write in enumerate(writes, 1)]


OURS = claim_finalizer(UID)


def _completed(reason: str) -> dict[str, Json]:
    return {"conditions": [{"type": "Completed", "status": "True", "reason": reason}]}


def test_a_run_that_goes_its_way_breaks_nothing() -> None:
    writes = _events(
        (RUNS, _run()),
        (CLAIMS, _claim()),
        (CLAIMS, _claim(OURS)),
        (JOBS, _job()),
        (PODS, _pod()),
        (JOBS, _job("Complete")),
        (RUNS, _run(**_completed("SearchSucceeded"))),
        (CLAIMS, _claim()),
        (RUNS, _run(**_completed("SearchSucceeded")), "gone"),
    )
    assert list(violations(writes)) == []


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        (((RUNS, _run()), (CLAIMS, _claim()), (JOBS, _job())), "before its finalizer"),
        (((RUNS, _run()), (CLAIMS, _claim(OURS, deletionTimestamp="now")), (JOBS, _job())), "is being deleted"),
        (((RUNS, _run()), (JOBS, _job())), "without a claim"),
        (((RUNS, _run()), (CLAIMS, _claim(OURS)), (JOBS, _job()), (CLAIMS, _claim())), "Job run is left"),
        (((CLAIMS, _claim(OURS)), (JOBS, _job("Complete")), (CLAIMS, _claim())), "Job run is left"),
        (((CLAIMS, _claim(OURS)), (PODS, _pod()), (CLAIMS, _claim())), "Pod run-x is left"),
        (((RUNS, _run(**_completed("Superseded"))), (RUNS, _run(**_completed("SearchFailed")))), "changed from"),
        (((RUNS, _run(**_completed("Superseded"))), (RUNS, _run())), "changed from"),
    ],
)
def test_a_write_that_breaks_an_invariant_is_said(writes: tuple[Any, ...], said: str) -> None:
    (found,) = violations(_events(*writes))
    assert said in found
    assert found.startswith(f"{len(writes)}: ")


def test_a_finalizer_that_a_test_removed_itself_is_not_judged() -> None:
    writes = _events((RUNS, _run()), (CLAIMS, _claim(OURS)), (JOBS, _job()), (CLAIMS, _claim()))
    assert list(violations(writes, {OURS})) == []
