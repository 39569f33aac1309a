"""List, watch, and begin again: what a reflector asks, when, and what it reports."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.kube.scripted import Scripted, Step, bookmark, event, flow, page, refused, run, scripted, status, thing

from dgdr_retune.kube import (
    JOBS,
    Api,
    Json,
    MaybeAppliedError,
    NotSentError,
    Reflector,
    Transport,
)
from dgdr_retune.testing import SimulatedApiServer, SimulatedTransport

FOREVER = 1e9


class Followed:
    """A reflector and what it has reported: names and versions before and after."""

    def __init__(self, transport: Transport, *, seed: int = 1, **given: Any) -> None:
        self.changes: list[tuple[str | None, str | None]] = []
        self.at: list[float] = []
        rng = random.Random(seed)  # noqa: S311 - for jitter
        given = {"watch_s": FOREVER, "inactivity_s": FOREVER, "relist_every_s": FOREVER} | given
        self.reflector = Reflector(
            Api(transport, rng=rng, attempts=1), JOBS, "default", on_change=self._note, rng=rng, **given
        )
        self.cache = self.reflector.cache

    def _note(self, old: dict[str, Json] | None, new: dict[str, Json] | None) -> None:
        self.changes.append((_short(old), _short(new)))
        self.at.append(asyncio.get_running_loop().time())

    async def run_for(self, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.reflector.run()


def _short(value: dict[str, Json] | None) -> str | None:
    return None if value is None else f"{value['metadata']['name']}@{value['metadata']['resourceVersion']}"


def followed(*steps: Step, seconds: float = 1000, seed: int = 1, **given: Any) -> tuple[Followed, Scripted]:
    """Follow a script on virtual time."""
    transport = scripted(*steps)

    async def scenario() -> Followed:
        follower = Followed(transport, seed=seed, **given)
        await follower.run_for(seconds)
        return follower

    return run(scenario()), transport


def waits(transport: Scripted) -> list[float]:
    return [later - earlier for earlier, later in zip(transport.times, transport.times[1:], strict=False)]


def kinds(transport: Scripted) -> list[str]:
    """``list``, or ``watch`` with the version that it goes on from."""
    watches = [call.query.get("watch") for call in transport.calls]
    return [
        f"watch {call.query['resourceVersion']}" if watch else "list"
        for call, watch in zip(transport.calls, watches, strict=True)
    ]


QUIET = flow(FOREVER)


def test_it_lists_and_then_watches_from_there() -> None:
    follower, transport = followed(
        page(9, thing("a", 3)), flow(event("MODIFIED", thing("a", 10)), event("DELETED", thing("a", 11)), FOREVER)
    )
    assert kinds(transport) == ["list", "watch 9"]
    assert follower.changes == [(None, "a@3"), ("a@3", "a@10"), ("a@10", None)]
    assert follower.reflector.synced.is_set()


def test_it_is_synced_once_the_first_list_is_in_the_cache_and_not_before() -> None:
    async def scenario() -> None:
        async def slow(_: object) -> Any:
            await asyncio.sleep(10)
            return page(9, thing("a", 3))

        follower = Followed(scripted(slow, QUIET))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follower.reflector.run())
            await asyncio.sleep(9)
            assert not follower.reflector.synced.is_set()
            await follower.reflector.synced.wait()
            assert follower.cache.get("default", "a") is not None
            task.cancel()

    run(scenario())


def test_the_cache_is_up_to_date_when_a_change_is_reported() -> None:
    seen: list[object] = []

    async def scenario() -> None:
        transport = scripted(page(9), flow(event("ADDED", thing("a", 10)), FOREVER))
        rng = random.Random(1)  # noqa: S311 - for jitter

        def cache_shows(new: object) -> bool:
            return reflector.cache.all() == (new,)

        reflector = Reflector(
            Api(transport, rng=rng),
            JOBS,
            on_change=lambda _, new: seen.append(reflector.cache.all() == (new,)),
            rng=rng,
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reflector.run()

    run(scenario())
    assert seen == [True]


def test_a_watch_that_ends_goes_on_from_the_last_version_bookmarks_included() -> None:
    _, transport = followed(
        page(9), flow(event("ADDED", thing("a", 12))), flow(event("MODIFIED", thing("a", 13)), bookmark(20)), QUIET
    )
    assert kinds(transport) == ["list", "watch 9", "watch 12", "watch 20"]
    assert waits(transport)[1:] == [0, 0], "a watch that ended well is followed by the next at once"


@pytest.mark.parametrize("gone", [refused(410, "Expired"), flow(event("ERROR", status(410, "Expired")))])
def test_both_forms_of_410_begin_from_a_list(gone: Step) -> None:
    follower, transport = followed(
        page(9, thing("a", 3), thing("b", 4)), gone, page(30, thing("a", 3), thing("c", 29)), QUIET
    )
    assert kinds(transport) == ["list", "watch 9", "list", "watch 30"]
    assert follower.changes[2:] == [("b@4", None), (None, "c@29")], "what the list no longer has was deleted"
    assert follower.cache.all() == (thing("a", 3), thing("c", 29))


@pytest.mark.parametrize("gone", [refused(410, "Expired"), flow(event("ERROR", status(410, "Expired")))])
def test_410_again_right_after_each_list_is_waited_out_longer_and_longer_with_jitter(gone: Step) -> None:
    script = [step for _ in range(10) for step in (page(9), gone)]
    _, transport = followed(*script, page(9), QUIET)
    between_lists = waits(transport)[1::2]
    for wait, about in zip(between_lists, (0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30), strict=True):
        assert about / 2 <= wait <= about
    assert len({round(wait / about, 6) for wait, about in zip(between_lists[-4:], [30] * 4, strict=True)}) == 4


def test_a_slow_server_that_says_410_each_time_is_waited_out_too() -> None:
    async def slow_list(_: object) -> Any:
        await asyncio.sleep(5)
        return page(9)

    script = [step for _ in range(6) for step in (slow_list, flow(5.0, event("ERROR", status(410, "Expired"))))]
    _, transport = followed(*script, page(9), QUIET)
    assert waits(transport)[-2] > 5 + 8


@pytest.mark.parametrize("line", [event("ADDED", status(410)), event("MODIFIED", status(410)), b"rubbish\n"])
def test_a_status_never_becomes_an_object_and_what_is_not_understood_is_listed_again(line: bytes) -> None:
    follower, transport = followed(page(9, thing("a", 3)), flow(line), page(12, thing("a", 3)), QUIET)
    assert follower.cache.all() == (thing("a", 3),)
    assert follower.changes == [(None, "a@3")]
    assert kinds(transport)[2] == "list"


@pytest.mark.parametrize("lost", [NotSentError("x"), MaybeAppliedError("x"), flow(MaybeAppliedError("x"))])
def test_a_connection_that_is_lost_goes_on_from_the_last_version(lost: Step) -> None:
    _, transport = followed(page(9), lost, QUIET)
    assert kinds(transport) == ["list", "watch 9", "watch 9"]
    assert 0.25 <= waits(transport)[1] <= 0.5


@pytest.mark.parametrize("code", [400, 403, 404, 500, 504])
def test_a_watch_that_is_refused_begins_from_a_list(code: int) -> None:
    _, transport = followed(page(9), refused(code), page(10), QUIET)
    assert kinds(transport) == ["list", "watch 9", "list", "watch 10"]


def test_a_watch_that_is_turned_away_waits_as_long_as_asked_and_keeps_its_place() -> None:
    _, transport = followed(page(9), refused(429, retry_after="20"), QUIET)
    assert kinds(transport) == ["list", "watch 9", "watch 9"]
    assert 20 <= waits(transport)[1] <= 25


def test_a_list_that_fails_is_tried_until_it_succeeds() -> None:
    follower, transport = followed(
        NotSentError("x"), refused(429, retry_after="5"), refused(403), page(9, thing("a", 3)), QUIET
    )
    assert follower.changes == [(None, "a@3")]
    assert waits(transport)[1] >= 5


def test_a_silent_watch_is_replaced_and_misses_nothing() -> None:
    """A server that accepts a watch and sends nothing, not even bookmarks, must not blind us."""
    follower, transport = followed(
        page(9), QUIET, flow(event("ADDED", thing("a", 10)), FOREVER), QUIET, seconds=200, inactivity_s=70
    )
    assert kinds(transport)[:3] == ["list", "watch 9", "watch 9"]
    assert transport.times[2] == pytest.approx(70.4, abs=0.2)
    assert follower.changes == [(None, "a@10")]


def test_a_server_without_bookmarks_is_looked_at_often_however_long_nothing_happens() -> None:
    _, transport = followed(page(9), *[QUIET] * 100, seconds=3600, inactivity_s=70)
    assert max(waits(transport)) < 71


def test_the_server_is_asked_to_end_each_watch_at_another_time() -> None:
    _, transport = followed(page(9), *[flow(bookmark(10 + number)) for number in range(20)], QUIET, watch_s=300)
    asked = {int(call.query["timeoutSeconds"]) for call in transport.calls[1:]}
    assert len(asked) > 10
    assert all(240 <= seconds <= 360 for seconds in asked)


def test_a_server_that_does_not_end_its_watch_is_left() -> None:
    chatter = [step for number in range(1000) for step in (bookmark(10 + number), 30.0)]
    _, transport = followed(page(9), flow(*chatter), QUIET, seconds=470, watch_s=300, inactivity_s=70)
    assert kinds(transport)[2].startswith("watch")
    assert transport.times[2] <= 360 + 70


def test_everything_is_listed_again_from_time_to_time_though_the_watch_seems_well() -> None:
    def chatter(start: int) -> Step:
        return flow(*[step for number in range(50) for step in (bookmark(start + number), 60.0)])

    follower, transport = followed(
        page(9, thing("a", 3), thing("b", 4)),
        chatter(10),
        page(200, thing("b", 150)),
        chatter(201),
        seconds=2000,
        inactivity_s=70,
        relist_every_s=1000,
    )
    assert kinds(transport) == ["list", "watch 9", "list", "watch 200"]
    assert 800 <= transport.times[2] <= 1200 + 70
    assert follower.changes[2:] == [("a@3", None), ("b@4", "b@150")], "events that were lost without a sign"


def test_watches_that_end_as_soon_as_they_begin_are_not_a_busy_loop() -> None:
    _, transport = followed(page(9), *[flow()] * 10, QUIET)
    assert waits(transport)[-1] > 10


def test_a_failure_is_logged_once_and_so_is_its_end() -> None:
    lost = MaybeAppliedError("x")
    with capture_logs() as logs:
        followed(page(9), lost, lost, lost, flow(bookmark(10)), QUIET)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("watch_failed", "warning"),
        ("watch_recovered", "info"),
    ]
    assert logs[0]["resource"] == "jobs"


def test_a_quiet_server_without_bookmarks_is_not_logged_about_again_and_again() -> None:
    with capture_logs() as logs:
        followed(page(9), *[QUIET] * 20, seconds=1000, inactivity_s=70)
    assert [entry["event"] for entry in logs] == ["watch_failed"]


def test_what_is_missing_in_the_grants_is_logged_with_its_reason() -> None:
    with capture_logs() as logs:
        followed(*[refused(403, "Forbidden")] * 3, page(9), QUIET)
    assert [entry["reason"] for entry in logs if entry["event"] == "watch_failed"] == ["Forbidden"]


def test_an_error_of_the_callback_ends_it() -> None:
    def broken(*_: object) -> None:
        raise TimeoutError("a fault of the program")

    async def scenario() -> None:
        transport = scripted(page(9), flow(event("ADDED", thing("a", 10)), FOREVER))
        rng = random.Random(1)  # noqa: S311 - for jitter
        await Reflector(Api(transport, rng=rng), JOBS, on_change=broken, rng=rng).run()

    with pytest.raises(TimeoutError, match="a fault of the program"):
        run(scenario())


def test_being_cancelled_it_leaves_no_connection() -> None:
    async def scenario() -> None:
        transport = scripted(page(9), QUIET)
        task = asyncio.create_task(Followed(transport).reflector.run())
        await asyncio.sleep(1)
        assert transport.open_streams == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transport.open_streams == 0

    run(scenario())


Scenario = Callable[[SimulatedApiServer, Api, Followed], Any]


def with_server(scenario: Scenario, **given: Any) -> None:
    """Run a scenario beside a reflector on a simulated server."""

    async def main() -> None:
        server = SimulatedApiServer()
        transport = SimulatedTransport(server)
        follower = Followed(transport, **given)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follower.reflector.run())
            await follower.reflector.synced.wait()
            await asyncio.sleep(1)
            await scenario(server, Api(transport, rng=random.Random(1)), follower)  # noqa: S311 - for jitter
            task.cancel()

    run(main())


def job(name: str) -> dict[str, Json]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": {}}


def test_a_cache_follows_the_simulated_server_through_a_recreation() -> None:
    async def scenario(_: SimulatedApiServer, api: Api, follower: Followed) -> None:
        first = await api.create(JOBS, "default", job("a"))
        await api.delete(JOBS, "default", "a", uid=first["metadata"]["uid"])
        second = await api.create(JOBS, "default", job("a"))
        await asyncio.sleep(1)
        assert follower.cache.by_uid(first["metadata"]["uid"]) is None
        assert follower.cache.get("default", "a") == second
        assert [new is None for _, new in follower.changes] == [False, True, False]

    with_server(scenario)


def test_a_cache_survives_that_the_past_is_compacted_while_it_looks_away() -> None:
    async def scenario(server: SimulatedApiServer, api: Api, follower: Followed) -> None:
        old = await api.create(JOBS, "default", job("old"))
        await asyncio.sleep(1)
        await api.delete(JOBS, "default", "old", uid=old["metadata"]["uid"])
        await api.create(JOBS, "default", job("new"))
        server.compact()
        await asyncio.sleep(60)
        assert [value["metadata"]["name"] for value in follower.cache.all()] == ["new"]
        assert follower.changes[-1][0] is None or follower.changes[-1][1] is None

    with_server(scenario)


def test_on_a_quiet_server_bookmarks_keep_one_watch_alive() -> None:
    async def scenario(server: SimulatedApiServer, _: Api, follower: Followed) -> None:
        listeners = len(server.store._listeners)
        await asyncio.sleep(250)
        assert len(server.store._listeners) == listeners == 1
        assert follower.changes == []

    with_server(scenario, inactivity_s=70)
