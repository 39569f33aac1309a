"""Events on virtual time: few, with counts, and never in the way."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dgdr_retune.kube import EVENTS, Answer, Api, Call, EventRecorder, MaybeAppliedError, NotSentError
from dgdr_retune.kube._series import BURST, MAX_OBJECTS, MAX_SERIES, REFILL_S
from dgdr_retune.testing import Request, SimulatedApiServer, SimulatedTransport, VirtualLoop

Json = Any
HANGS_S = 1e6


def about(name: str = "run", **metadata: str) -> dict[str, Json]:
    place = {"namespace": "team", "name": name, "uid": f"uid-{name}", "resourceVersion": "7", **metadata}
    return {"apiVersion": "nvidia.com/v1beta1", "kind": "Run", "metadata": place, "spec": {"large": True}}


class World:
    """A server, a recorder, and whatever a test puts between them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server = SimulatedApiServer(now=loop.now)
        self.handle(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        )
        self.transport = SimulatedTransport(self.server)
        self.calls: list[Call] = []
        self.fault: Callable[[Call], Exception | float | None] = lambda _: None
        self.answer_is_lost = False
        rng = random.Random(1)  # noqa: S311 - the same each time
        self.recorder = EventRecorder(Api(self, rng=rng), component="retune-operator", now=loop.now, rng=rng)

    def handle(self, method: str, path: str, body: Json = None) -> Json:
        raw = b"" if body is None else json.dumps(body).encode()
        response = self.server.handle(Request(method, path, {}, "application/json", raw))
        assert response.code < 300, response.body
        return response.body

    async def send(self, call: Call) -> Answer:
        self.calls.append(call)
        fault = self.fault(call)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            await asyncio.sleep(fault)
        answer = await self.transport.send(call)
        if self.answer_is_lost:
            raise MaybeAppliedError("reset")
        return answer

    def stream(self, call: Call) -> Any:
        raise AssertionError(call)

    def events(self, namespace: str = "team") -> list[Json]:
        items = self.handle("GET", EVENTS.path(namespace))["items"]
        return sorted(items, key=lambda event: int(event["metadata"]["resourceVersion"]))

    def said(self) -> list[tuple[str, str, int]]:
        return [(event["reason"], event["message"], event["count"]) for event in self.events()]

    def run(self, scenario: Callable[[asyncio.Task[Any]], Any]) -> None:
        async def whole() -> None:
            task = asyncio.create_task(self.recorder.run())
            await scenario(task)

        self.loop.run(whole(), until_s=1e5)


@pytest.fixture
def world() -> Iterator[World]:
    with VirtualLoop() as loop, capture_logs():
        yield World(loop)


def test_an_event_has_the_fields_of_kubernetes(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        await asyncio.sleep(1.5)
        world.recorder.record(about(), "JobCreated", "Created Job run-1.", "Warning")
        await asyncio.sleep(1)
        (listed,) = world.events()
        event = world.handle("GET", EVENTS.path("team", listed["metadata"]["name"]))
        metadata = event.pop("metadata")
        assert re.fullmatch(r"run\.[0-9a-f]{16}", metadata["name"])
        assert metadata["namespace"] == "team"
        assert event == {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {
                "apiVersion": "nvidia.com/v1beta1",
                "kind": "Run",
                "namespace": "team",
                "name": "run",
                "uid": "uid-run",
            },
            "type": "Warning",
            "reason": "JobCreated",
            "message": "Created Job run-1.",
            "source": {"component": "retune-operator"},
            "reportingComponent": "retune-operator",
            "firstTimestamp": "2026-01-01T00:00:01Z",
            "lastTimestamp": "2026-01-01T00:00:01Z",
            "count": 1,
        }

    world.run(scenario)


def test_a_thousand_identical_ones_are_one_event_with_a_count_in_few_writes(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        for _ in range(1000):
            world.recorder.record(about(), "Waiting", "No claim.")
            await asyncio.sleep(0.5)
        await asyncio.sleep(REFILL_S)
        (event,) = world.events()
        assert event["count"] == 1000
        assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
        assert event["lastTimestamp"] == "2026-01-01T00:08:19Z"
        assert len(world.calls) <= BURST + 1000 * 0.5 / REFILL_S + 2

    world.run(scenario)


def test_a_thousand_at_once_are_one_write(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        for _ in range(1000):
            world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(1)
        assert world.said() == [("Waiting", "No claim.", 1000)]
        assert len(world.calls) == 1

    world.run(scenario)


def test_what_differs_in_object_reason_or_message_is_an_event_of_its_own(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.recorder.record(about(), "Waiting", "No claim.")
        world.recorder.record(about(), "Waiting", "No claim.", "Warning")
        world.recorder.record(about(), "Waiting", "No pod.")
        world.recorder.record(about(), "Failed", "No claim.")
        world.recorder.record(about(uid="another"), "Waiting", "No claim.")
        world.recorder.record(about("other"), "Waiting", "No claim.")
        await asyncio.sleep(1)
        assert len(world.events()) == 6
        assert len({event["metadata"]["name"] for event in world.events()}) == 6
        assert {event["count"] for event in world.events()} == {1}

    world.run(scenario)


def test_many_that_differ_in_their_message_alone_are_combined(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        for number in range(15):
            world.recorder.record(about(), "Waiting", f"{number}")
            await asyncio.sleep(1)
        assert len(world.events()) == 11
        assert world.said()[-1] == ("Waiting", "(combined from similar events): 14", 5)
        world.recorder.record(about(), "Waiting", "3")
        await asyncio.sleep(1)
        assert world.said()[-1] == ("Waiting", "3", 2)
        await asyncio.sleep(601)
        world.recorder.record(about(), "Waiting", "later")
        await asyncio.sleep(1)
        assert world.said()[-1] == ("Waiting", "later", 1)

    world.run(scenario)


def test_writes_about_an_object_are_bounded_in_rate_and_do_not_hold_up_those_about_others(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        for number in range(100):
            world.recorder.record(about(), f"Reason{number % 30}", "text")
            await asyncio.sleep(1)
        assert len(world.calls) == BURST
        world.recorder.record(about("other"), "Waiting", "No claim.")
        await asyncio.sleep(1)
        assert len(world.calls) == BURST + 1
        await asyncio.sleep(2 * REFILL_S)
        assert len(world.calls) == BURST + 3

    world.run(scenario)


def test_what_is_remembered_is_bounded(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.fault = lambda _: HANGS_S
        for number in range(3 * MAX_OBJECTS):
            world.recorder.record(about(f"run-{number}"), "Waiting", "x" * 5000)
        for number in range(500):
            world.recorder.record(about("run-0"), f"Reason{number}", "text")
        book = world.recorder._book
        assert len(book) == MAX_OBJECTS - 1 + MAX_SERIES
        assert len(book._waiting) == len(book)
        assert max(len(series.message) for series in book._waiting) == 1024

    world.run(scenario)


def test_a_long_name_leaves_room_for_the_rest(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.recorder.record(about("a" * 235 + "-" * 18), "Waiting", "No claim.")
        await asyncio.sleep(1)
        (event,) = world.events()
        assert len(event["metadata"]["name"]) <= 253
        assert "-." not in event["metadata"]["name"]

    world.run(scenario)


def test_an_event_about_what_is_in_no_namespace_is_in_the_default_one(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}
        world.recorder.record(node, "Lost", "Not ready.")
        await asyncio.sleep(1)
        (event,) = world.events("default")
        assert "namespace" not in event["involvedObject"]

    world.run(scenario)


def test_an_event_that_has_expired_is_made_again(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(1)
        world.handle("DELETE", EVENTS.path("team", world.events()[0]["metadata"]["name"]))
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(1)
        assert world.said() == [("Waiting", "No claim.", 2)]

    world.run(scenario)


def test_a_creation_whose_answer_was_lost_is_found_again(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.answer_is_lost = True
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(0.1)
        world.answer_is_lost = False
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(10)
        assert world.said() == [("Waiting", "No claim.", 2)]

    world.run(scenario)


def test_failures_are_logged_when_they_begin_and_what_waits_is_written_later(world: World) -> None:
    async def scenario(task: asyncio.Task[Any]) -> None:
        world.fault = lambda _: NotSentError("unplugged")
        for number in range(5):
            world.recorder.record(about(f"run-{number}"), "Waiting", "No claim.")
        await asyncio.sleep(15)
        assert not task.done()
        world.fault = lambda _: None
        await asyncio.sleep(60)
        assert len(world.said()) == 5

    with capture_logs() as logs:
        world.run(scenario)
    assert [line["event"] for line in logs] == ["event_not_written"]


def test_an_event_that_cannot_be_written_is_given_up_and_the_next_is_not(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.fault = lambda call: MaybeAppliedError("reset") if b"poison" in call.body else None
        world.recorder.record(about(), "Waiting", "poison")
        world.recorder.record(about(), "Waiting", "well")
        await asyncio.sleep(300)
        assert world.said() == [("Waiting", "well", 1)]
        calls = len(world.calls)
        await asyncio.sleep(1000)
        assert len(world.calls) == calls

    world.run(scenario)


def test_a_refusal_is_not_repeated(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        world.recorder.record(about(namespace="missing"), "Waiting", "No claim.")
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(0.5)
        assert len(world.said()) == 1
        assert len(world.calls) == 2

    world.run(scenario)


def test_a_call_that_hangs_is_given_up(world: World) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        hangs = iter([HANGS_S])
        world.fault = lambda _: next(hangs, None)
        world.recorder.record(about(), "Waiting", "No claim.")
        await asyncio.sleep(20)
        assert world.said() == [("Waiting", "No claim.", 1)]

    world.run(scenario)


async def cancelled(task: asyncio.Task[Any]) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return loop.time() - begun


def test_the_end_writes_what_still_waits(world: World) -> None:
    async def scenario(task: asyncio.Task[Any]) -> None:
        await asyncio.sleep(1)
        for number in range(100):
            world.recorder.record(about(f"run-{number}"), "Stopping", "The operator ends.")
        await cancelled(task)
        assert len(world.events()) == 100

    world.run(scenario)


def test_the_end_does_not_wait_for_a_server_that_hangs_or_fails(world: World) -> None:
    async def scenario(task: asyncio.Task[Any]) -> None:
        for number in range(100):
            world.recorder.record(about(f"run-{number}"), "Stopping", "The operator ends.")
        world.fault = lambda _: HANGS_S
        await asyncio.sleep(1)
        assert await cancelled(task) <= 2

    world.run(scenario)


def test_the_end_tries_each_once(world: World) -> None:
    async def scenario(task: asyncio.Task[Any]) -> None:
        await asyncio.sleep(1)
        for number in range(10):
            world.recorder.record(about(f"run-{number}"), "Stopping", "The operator ends.")
        world.fault = lambda _: MaybeAppliedError("reset")
        await cancelled(task)
        assert len(world.calls) == 10

    world.run(scenario)


SAID = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["Waiting", "Failed"]),
    st.sampled_from("xyz"),
    st.sampled_from([0.0, 0.4, 70.0]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(SAID, max_size=60), st.sets(st.integers(0, 40)))
def test_counts_are_true_whatever_fails_in_between(said: list[tuple[str, str, str, float]], failing: set[int]) -> None:
    async def scenario(_: asyncio.Task[Any]) -> None:
        for name, reason, message, pause_s in said:
            world.recorder.record(about(name), reason, message)
            await asyncio.sleep(pause_s)
        await asyncio.sleep(100 * REFILL_S)
        expected: dict[tuple[str, str, str], int] = {}
        for name, reason, message, _pause in said:
            expected[name, reason, message] = expected.get((name, reason, message), 0) + 1
        counts = {
            (event["involvedObject"]["name"], event["reason"], event["message"]): event["count"]
            for event in world.events()
        }
        assert counts == expected

    with VirtualLoop() as loop, capture_logs():
        world = World(loop)
        # No two in a row fail, so none is given up.
        world.fault = lambda _: (
            MaybeAppliedError("reset") if len(world.calls) % 2 and len(world.calls) in failing else None
        )
        world.run(scenario)
