"""What each fault of a call or a watch does, and what a dead process can do: nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from dgdr_retune.kube import (
    CLAIMS,
    Api,
    ConflictError,
    GoneError,
    InvalidError,
    MaybeAppliedError,
    NotSentError,
    RefusedError,
)
from dgdr_retune.testing import Client, Fault, Faults, VirtualLoop, World
from dgdr_retune.testing._store import Key

Json = Any
Play = Callable[[Client, Api, World], Awaitable[Any]]

CLAIM = Key("/persistentvolumeclaims", "default", "traces")


def played(play: Play, *faults: Fault) -> Any:
    """What comes of a play in which these faults strike whenever they can."""
    rng = random.Random(1)  # noqa: S311 - not for secrets
    with VirtualLoop() as loop:
        world = World(loop, seed=1)
        world.access("people").create(CLAIM.resource, CLAIM.namespace, {"metadata": {"name": CLAIM.name}})

        async def main() -> Any:
            always = Faults(rng, dict.fromkeys(faults, 1.0))
            client = Client("operator-a1", world.desk, faults=always, rng=rng, tell=lambda _: None)
            return await play(client, Api(client, rng=rng, attempts=1), world)

        return loop.run(main(), until_s=1000)


def metadata(world: World) -> Json:
    return world.access("people").get(CLAIM)["metadata"]


async def label(api: Api, world: World) -> None:
    fenced = {"labels": {"a": "b"}, "resourceVersion": metadata(world)["resourceVersion"]}
    await api.patch(CLAIMS, CLAIM.namespace, CLAIM.name, {"metadata": fenced})


@pytest.mark.parametrize(
    ("fault", "error", "is_done"),
    [
        (Fault.NOT_SENT, NotSentError, False),
        (Fault.LOST_BEFORE, MaybeAppliedError, False),
        (Fault.LOST_AFTER, MaybeAppliedError, True),
        (Fault.SERVER_ERROR_AFTER, MaybeAppliedError, True),
        (Fault.CONFLICT, ConflictError, False),
        (Fault.INVALID, InvalidError, False),
        (Fault.THROTTLED, RefusedError, False),
    ],
)
def test_a_write_fails_and_is_done_or_not(fault: Fault, error: type[Exception], is_done: bool) -> None:  # noqa: FBT001 - parametrized
    async def play(_: Client, api: Api, world: World) -> None:
        with pytest.raises(error):
            await label(api, world)
        assert metadata(world).get("labels") == ({"a": "b"} if is_done else None)

    played(play, fault)


def test_a_timeout_takes_as_long_as_it_may() -> None:
    async def play(_: Client, api: Api, world: World) -> float:
        with pytest.raises(MaybeAppliedError):
            await label(api, world)
        return world.loop.time()

    assert 15 <= played(play, Fault.TIMEOUT) <= 16


def test_a_slow_write_arrives_even_if_its_sender_is_dead() -> None:
    async def play(client: Client, api: Api, world: World) -> None:
        writing = asyncio.create_task(label(api, world))
        await asyncio.sleep(0.5)
        client.kill()
        writing.cancel()
        assert "labels" not in metadata(world)
        await asyncio.sleep(5)
        assert metadata(world)["labels"] == {"a": "b"}

    played(play, Fault.SLOW_WRITE)


def test_without_faults_a_write_is_done_and_counted() -> None:
    async def play(client: Client, api: Api, world: World) -> None:
        await label(api, world)
        assert metadata(world)["labels"] == {"a": "b"}
        assert [action.kind for action in client.actions] == ["patch persistentvolumeclaims"]

    played(play)


def test_a_process_that_dies_after_a_write_has_done_it_and_nothing_more() -> None:
    async def play(client: Client, api: Api, world: World) -> None:
        client.dies_after = 1
        with pytest.raises(asyncio.CancelledError):
            await label(api, world)
        assert metadata(world)["labels"] == {"a": "b"}
        revision = world.server.store.revision
        with pytest.raises(asyncio.CancelledError):
            await label(api, world)
        assert world.server.store.revision == revision

    played(play)


def test_a_process_that_dies_before_a_call_has_not_made_it() -> None:
    async def play(client: Client, api: Api, world: World) -> None:
        client.dies_before = 2
        await api.list(CLAIMS)
        with pytest.raises(asyncio.CancelledError):
            await label(api, world)
        assert client.is_dead
        assert "labels" not in metadata(world)

    played(play)


async def watched(api: Api, world: World, count: int) -> list[tuple[float, str]]:
    """When the first events of a watch come, and what they tell, while a label changes each second from 1 s on."""
    seen: list[tuple[float, str]] = []

    def change(number: int) -> None:
        world.access("people").patch(CLAIM, {"metadata": {"labels": {"a": str(number)}}})

    for number in range(1, 4):
        world.loop.call_at(number, change, number)
    start = metadata(world)["resourceVersion"]
    async with aclosing(api.watch(CLAIMS, resource_version=start, inactivity_s=50)) as events:
        async for event in events:
            seen.append((world.loop.time(), event["object"]["metadata"]["labels"]["a"]))
            if len(seen) == count:
                break
    return seen


def test_without_faults_a_watch_tells_at_once() -> None:
    assert played(lambda _, api, world: watched(api, world, 3)) == [(1, "1"), (2, "2"), (3, "3")]


def test_a_late_event_delays_those_behind_it_and_loses_none() -> None:
    seen = played(lambda _, api, world: watched(api, world, 3), Fault.STALE_CACHE)
    assert [value for _, value in seen] == ["1", "2", "3"]
    assert seen[0][0] >= 2


def test_an_event_may_come_twice() -> None:
    seen = played(lambda _, api, world: watched(api, world, 3), Fault.DUPLICATE_EVENT)
    assert [value for _, value in seen] == ["1", "1", "2"]


@pytest.mark.parametrize(
    ("fault", "error", "at_s"),
    [
        (Fault.GONE, GoneError, 0),
        (Fault.GONE_EVENT, GoneError, 1),
        (Fault.WATCH_LOST, MaybeAppliedError, 1),
        (Fault.WATCH_STALLED, MaybeAppliedError, 50),  # by the client's own clock
    ],
)
def test_a_watch_ends(fault: Fault, error: type[Exception], at_s: int) -> None:
    async def play(_: Client, api: Api, world: World) -> float:
        with pytest.raises(error):
            await watched(api, world, 3)
        return world.loop.time()

    assert at_s <= played(play, fault) < at_s + 1


def test_a_dead_process_hears_nothing_more() -> None:
    async def play(client: Client, api: Api, world: World) -> None:
        world.loop.call_at(1.5, client.kill)
        with pytest.raises(asyncio.CancelledError):
            await watched(api, world, 3)
        assert world.loop.time() == 2

    played(play)
