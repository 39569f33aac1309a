"""One watch: its events, and each way in which it ends."""

import asyncio
import random
from contextlib import aclosing
from typing import Any

import pytest
from tests.kube.scripted import Flow, Scripted, Step, bookmark, event, flow, refused, run, scripted, status, thing

from dgdr_retune.kube import JOBS, Api, GoneError, Json, KubeError, MaybeAppliedError, RefusedError
from dgdr_retune.kube._decode import TOO_DEEP


async def watched(transport: Scripted, **given: Any) -> tuple[list[Json], KubeError | None]:
    """All events until the end, and the error it ended with."""
    api = Api(transport, rng=random.Random(1), observe=given.pop("observe", None))  # noqa: S311 - for jitter
    events: list[Json] = []
    try:
        async with aclosing(api.watch(JOBS, "default", resource_version="5", **given)) as watch:
            async for each in watch:
                events.append(each)  # noqa: PERF401 - what came before an error counts
    except KubeError as error:
        return events, error
    return events, None


def test_a_watch_asks_for_bookmarks_from_a_version_and_for_an_end() -> None:
    transport = scripted(flow())
    assert run(watched(transport, label_selector="a=b", timeout_s=301.4)) == ([], None)
    assert transport.calls[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "301",
        "labelSelector": "a=b",
    }


def test_events_come_as_they_are_sent() -> None:
    lines = [event("ADDED", thing("a", 6)), event("MODIFIED", thing("a", 7)), event("DELETED", thing("a", 8))]
    events, error = run(watched(scripted(flow(*lines, bookmark(9)))))
    assert [each["type"] for each in events] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    assert events[0]["object"] == thing("a", 6)
    assert error is None


@pytest.mark.parametrize(
    "step",
    [
        refused(410, "Expired"),
        refused(410, "Gone"),
        flow(event("ERROR", status(410, "Expired"))),
        flow(event("ERROR", status(410, "Gone"))),
    ],
)
def test_both_forms_of_410_mean_that_the_past_is_gone(step: Step) -> None:
    events, error = run(watched(scripted(step)))
    assert events == []
    assert isinstance(error, GoneError)


def test_a_watch_that_is_turned_away_says_for_how_long() -> None:
    _, error = run(watched(scripted(refused(429, retry_after="7"))))
    assert isinstance(error, RefusedError)
    assert (error.status, error.retry_after_s) == (429, 7)
    _, error = run(watched(scripted(flow(event("ERROR", status(429, "TooManyRequests", retryAfterSeconds=3))))))
    assert isinstance(error, RefusedError)
    assert (error.status, error.retry_after_s) == (429, 3)


@pytest.mark.parametrize(
    "line",
    [
        event("ADDED", status(410, "Expired")),
        event("MODIFIED", status(500)),
        event("BOOKMARK", status(410)),
        event("ERROR", thing("a", 6)),
        event("SOMETHING", thing("a", 6)),
        event("ADDED", {"metadata": {"name": "a"}}),
        event("ADDED", {"metadata": {"name": "a", "uid": "u", "resourceVersion": "x"}}),
        event("ADDED", None),
        event("BOOKMARK", {"metadata": {}}),
        b"not json\n",
        b"[]\n",
        b'{"type": "ADDED"}\n',
        b"\xff\n",
    ],
)
def test_what_is_no_event_of_an_object_is_never_taken_for_one(line: bytes) -> None:
    events, error = run(watched(scripted(flow(event("ADDED", thing("a", 6)), line))))
    assert len(events) == 1
    assert isinstance(error, MaybeAppliedError)
    assert error.reason == "Malformed"


def test_an_event_nested_deeper_than_python_parses_is_cut() -> None:
    line = event("ADDED", thing("a", 6) | {"spec": "HERE"}).replace(b'"HERE"', b"[" * 5000 + b"]" * 5000)
    ((cut,), error) = run(watched(scripted(flow(line))))
    assert error is None
    assert TOO_DEEP in str(cut["object"]["spec"])


def test_the_half_of_an_event_is_dropped() -> None:
    events, error = run(watched(scripted(flow(event("ADDED", thing("a", 6)), event("ADDED", thing("b", 7))[:-9]))))
    assert [each["object"]["metadata"]["name"] for each in events] == ["a"]
    assert error is None


def test_a_silent_watch_counts_as_lost() -> None:
    async def scenario() -> tuple[float, KubeError | None]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        _, error = await watched(scripted(flow(bookmark(6), 60.0, bookmark(7), 10_000.0)), inactivity_s=70)
        return loop.time() - began, error

    took_s, error = run(scenario())
    assert isinstance(error, MaybeAppliedError)
    assert error.reason == "Silent"
    assert took_s == pytest.approx(130)


def test_bytes_that_never_make_a_line_are_silence_too() -> None:
    drip = [step for _ in range(100) for step in (b"x", 10.0)]
    _, error = run(watched(scripted(flow(*drip)), inactivity_s=70))
    assert isinstance(error, MaybeAppliedError)
    assert error.reason == "Silent"


def test_a_watch_that_breaks_off_says_so() -> None:
    lost = MaybeAppliedError("reset")
    events, error = run(watched(scripted(flow(event("ADDED", thing("a", 6)), lost))))
    assert len(events) == 1
    assert error is lost


def test_an_error_whose_body_never_comes_does_not_hold_the_watch() -> None:
    _, error = run(watched(scripted(Flow((1e6,), 500))), until_s=100)
    assert isinstance(error, MaybeAppliedError)


def test_a_watch_that_is_left_gives_its_connection_back() -> None:
    transport = scripted(flow(event("ADDED", thing("a", 6)), 1e6))

    async def scenario() -> None:
        api = Api(transport, rng=random.Random(1))  # noqa: S311 - for jitter
        async with aclosing(api.watch(JOBS, resource_version="5")) as watch:
            async for _ in watch:
                assert transport.open_streams == 1
                break
        assert transport.open_streams == 0

    run(scenario())


def test_the_beginning_of_a_watch_is_observed() -> None:
    seen: list[tuple[str, str]] = []

    def observe(verb: str, _: object, outcome: str, seconds: float) -> None:
        seen.append((verb, outcome))
        assert seconds == 0

    run(watched(scripted(flow(100.0)), observe=observe, inactivity_s=500))
    run(watched(scripted(refused(403)), observe=observe))
    run(watched(scripted(MaybeAppliedError("x")), observe=observe))
    assert seen == [("watch", "200"), ("watch", "403"), ("watch", "lost")]
