"""Which failed calls are repeated, and when."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.scripted import Scripted, Step, answer, page, refused, run, scripted, thing

from dgdr_retune.kube import (
    JOBS,
    Answer,
    Api,
    Backoff,
    Call,
    KubeError,
    MaybeAppliedError,
    NotSentError,
    RefusedError,
)

MADE = thing("a", 7)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Verb = Callable[[Api], Awaitable[object]]

READS: dict[str, Verb] = {
    "get": lambda api: api.get(JOBS, "default", "a"),
    "list": lambda api: api.list(JOBS, "default"),
}
WRITES: dict[str, Verb] = {
    "create": lambda api: api.create(JOBS, "default", MADE),
    "replace": lambda api: api.replace(JOBS, "default", "a", MADE),
    "patch": lambda api: api.patch(JOBS, "default", "a", {}),
    "json_patch": lambda api: api.json_patch(JOBS, "default", "a", []),
    "delete": lambda api: api.delete(JOBS, "default", "a", uid="u"),
}
LOST = MaybeAppliedError("x")
UNSENT = NotSentError("x")


def done(verb: str) -> Answer:
    return page(9) if verb == "list" else answer(200, MADE)


def tried(transport: Scripted, verb: str, *, seed: int = 1, **given: Any) -> KubeError | None:
    """Make one call; the error it ends with."""

    async def scenario() -> None:
        await (READS | WRITES)[verb](Api(transport, rng=random.Random(seed), **given))  # noqa: S311 - for jitter

    try:
        run(scenario())
    except KubeError as error:
        return error
    return None


def waited(transport: Scripted) -> float:
    return transport.times[1] - transport.times[0]


@pytest.mark.parametrize("verb", [*READS, *WRITES])
@pytest.mark.parametrize(
    "failure",
    [UNSENT, refused(429), refused(429, retry_after="1"), refused(503, retry_after="1")],
    ids=["never sent", "429", "429 with Retry-After", "503 with Retry-After"],
)
def test_what_certainly_did_nothing_is_repeated(verb: str, failure: Step) -> None:
    transport = scripted(failure, failure, done(verb))
    assert tried(transport, verb) is None
    assert len({(call.path, call.body) for call in transport.calls}) == 1


@pytest.mark.parametrize("failure", [LOST, refused(500), refused(502), refused(503), refused(504)])
@pytest.mark.parametrize("verb", READS)
def test_a_read_is_repeated_after_all_that_may_pass(verb: str, failure: Step) -> None:
    assert tried(scripted(failure, done(verb)), verb) is None


@pytest.mark.parametrize("failure", [LOST, refused(500), refused(502), refused(503), refused(504)])
@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_may_have_been_applied_is_not_repeated_and_says_so(verb: str, failure: Step) -> None:
    transport = scripted(failure)
    assert isinstance(tried(transport, verb), MaybeAppliedError)
    assert len(transport.calls) == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 501])
@pytest.mark.parametrize("verb", ["get", *WRITES])
def test_a_refusal_for_good_is_not_repeated(verb: str, code: int) -> None:
    transport = scripted(refused(code))
    error = tried(transport, verb)
    assert isinstance(error, RefusedError)
    assert error.status == code
    assert len(transport.calls) == 1


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(("asked", "least", "most"), [("0", 0, 0.25), ("1", 1, 1.25), ("30", 30, 37.5)])
@pytest.mark.parametrize("verb", ["get", "list", "create", "patch"])
def test_retry_after_in_seconds_is_honoured_with_jitter(
    verb: str, code: int, asked: str, least: float, most: float
) -> None:
    waits = set()
    for seed in range(5):
        transport = scripted(refused(code, retry_after=asked), done(verb))
        assert tried(transport, verb, seed=seed) is None
        waits.add(waited(transport))
    assert all(least <= wait <= most for wait in waits)
    assert len(waits) == 5, "everybody would come back at once"


@pytest.mark.parametrize(("ahead_s", "least", "most"), [(20, 20, 25), (-20, 0, 0.25), (0, 0, 0.25)])
def test_retry_after_as_a_date_is_read_against_the_clock_of_the_server(
    ahead_s: float, least: float, most: float
) -> None:
    asked = format_datetime(NOW + timedelta(seconds=ahead_s), usegmt=True)
    transport = scripted(refused(429, retry_after=asked, date=format_datetime(NOW, usegmt=True)), done("patch"))
    assert tried(transport, "patch") is None
    assert least <= waited(transport) <= most


@pytest.mark.parametrize(
    "asked",
    [
        "Thu, 01 Jan 99999999999999999999 00:00:00 GMT",
        "",
        "soon",
        "-5",
        "1.5",
        "1e9",
        "٣",
        "Sun, 99 Mar 2026 12:00:00 GMT",
        "\x00",
    ],
)
def test_a_retry_after_that_cannot_be_read_is_as_good_as_none(asked: str) -> None:
    transport = scripted(refused(429, retry_after=asked), done("get"))
    assert tried(transport, "get") is None
    assert 0.125 <= waited(transport) <= 0.25


@pytest.mark.parametrize("asked", ["86400", "9" * 400])
def test_no_server_is_waited_for_longer_than_the_cap(asked: str) -> None:
    transport = scripted(refused(429, retry_after=asked), done("get"))
    assert tried(transport, "get", deadline_s=1000) is None
    assert 60 <= waited(transport) <= 75


def test_waiting_counts_toward_the_deadline_and_the_caller_learns_what_was_asked() -> None:
    transport = scripted(refused(429, retry_after="40"))
    error = tried(transport, "get", deadline_s=30)
    assert isinstance(error, RefusedError)
    assert error.retry_after_s == 40
    assert len(transport.calls) == 1


def test_the_last_attempt_is_cut_to_what_is_left_of_the_deadline() -> None:
    async def slow(call: Call) -> Answer:
        await asyncio.sleep(call.timeout_s)
        raise NotSentError("timed out")

    transport = scripted(slow, slow, slow, slow, slow)
    assert isinstance(tried(transport, "patch", timeout_s=15, deadline_s=40), NotSentError)
    assert [call.timeout_s for call in transport.calls[:2]] == [15, 15]
    assert transport.times[-1] + transport.calls[-1].timeout_s <= 40


def test_attempts_are_bounded_and_wait_longer_each_time() -> None:
    transport = scripted(*[UNSENT] * 5)
    assert isinstance(tried(transport, "create", attempts=5), NotSentError)
    waits = [later - earlier for earlier, later in zip(transport.times, transport.times[1:], strict=False)]
    assert len(transport.calls) == 5
    for wait, about in zip(waits, (0.25, 0.5, 1, 2), strict=True):
        assert about / 2 <= wait <= about


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 10_000), st.none() | st.floats(0, 60), st.randoms(use_true_random=False))
def test_a_wait_is_never_shorter_than_asked_and_never_without_a_bound(
    failures: int, asked_s: float | None, rng: random.Random
) -> None:
    wait_s = Backoff(0.5, 30).wait_s(failures, rng, asked_s)
    assert (asked_s or 0) <= wait_s <= (asked_s or 0) + 30
