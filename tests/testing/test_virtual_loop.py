"""The loop on virtual time: what asyncio promises holds on it, and it is the same each time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.testing import VirtualLoop, VirtualTimeError
from dgdr_retune.testing import _virtual_loop as module


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def test_an_hour_of_sleep_ends_at_once_at_exactly_that_time(loop: VirtualLoop) -> None:
    async def scenario() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert loop.run(scenario()) == 3600


def test_the_wall_clock_follows_and_can_jump(loop: VirtualLoop) -> None:
    start = loop.now()
    loop.run(asyncio.sleep(60))
    assert loop.now() - start == timedelta(seconds=60)
    loop.wall_offset_s = -600.0
    assert loop.now() - start == timedelta(seconds=-540)
    assert loop.time() == 60


def test_a_process_has_a_clock_of_its_own(loop: VirtualLoop) -> None:
    process = loop.process("a", clock_offset_s=600)
    assert process.now() - loop.now() == timedelta(seconds=600)
    process.clock_offset_s = -1
    assert process.now() - loop.now() == timedelta(seconds=-1)


def test_waiting_for_what_never_comes_is_an_error_that_names_the_waiting(loop: VirtualLoop) -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(
        VirtualTimeError, match=r"no timer is set at 0.0 s: 1 tasks wait: task-\d+ in .*waits"
    ) as caught:
        loop.run(waits_for_ever())
    assert caught.value.reason == "Deadlock"


def test_a_cancelled_timer_is_none(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_later(5, print).cancel()
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeError) as caught:
        loop.run(scenario())
    assert (caught.value.reason, loop.time()) == ("Deadlock", 0)


def test_patience_ends_at_the_time_given(loop: VirtualLoop) -> None:
    cancelled = []

    async def scenario() -> None:
        try:
            while True:  # noqa: ASYNC110 - time is what is waited for
                await asyncio.sleep(7)
        except asyncio.CancelledError:
            cancelled.append(loop.time())
            raise

    with pytest.raises(VirtualTimeError, match=r"not done at 10 s") as caught:
        loop.run(scenario(), until_s=10)
    assert caught.value.reason == "OutOfTime"
    assert cancelled == [10]
    loop.run(asyncio.sleep(7))
    assert loop.time() == 17


def test_time_that_stands_still_is_an_error(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPIN_LIMIT", 1000)

    async def spins() -> None:
        while True:  # noqa: ASYNC110 - that it spins is the point
            await asyncio.sleep(0)

    async def walks() -> None:
        for _ in range(2000):
            await asyncio.sleep(0.001)

    loop.run(walks())
    with pytest.raises(VirtualTimeError) as caught:
        loop.run(spins())
    assert caught.value.reason == "Spinning"


def test_a_callback_that_fails_ends_the_run(loop: VirtualLoop) -> None:
    def fails() -> None:
        raise KeyError("status")

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(5, fails)
        await asyncio.sleep(10)

    with pytest.raises(KeyError, match="status"):
        loop.run(scenario())
    assert loop.time() == 5


def test_what_a_run_leaves_is_cancelled_in_order(loop: VirtualLoop) -> None:
    ended = []

    async def sleeps(name: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(name)

    async def scenario() -> None:
        tasks = [asyncio.create_task(sleeps(name)) for name in range(20)]
        await asyncio.sleep(1)
        assert len(tasks) == 20

    loop.run(scenario())
    assert ended == list(range(20))
    assert loop.time() == 1


def test_a_task_that_does_not_end_when_cancelled_ends_the_run_all_the_same(loop: VirtualLoop) -> None:
    stop = False

    async def stubborn() -> None:
        while not stop:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    async def scenario() -> asyncio.Task[None]:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(1)
        return task

    with pytest.raises(VirtualTimeError, match="stubborn") as caught:
        loop.run(scenario())
    assert caught.value.reason == "OutOfTime"
    stop = True
    loop.run(asyncio.sleep(2))


def test_a_generator_that_was_left_is_closed(loop: VirtualLoop) -> None:
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(3)
            closed.append(loop.time())

    async def scenario() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(5)

    loop.run(scenario())
    assert closed == [3]


def test_threads_are_refused(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        loop.run(scenario())


def test_a_timeout_cancels_at_its_time(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.sleep(3)

    loop.run(scenario())
    assert loop.time() == 2.5


def test_timeouts_that_did_not_happen_do_not_pile_up(loop: VirtualLoop) -> None:
    async def scenario() -> int:
        most = 0
        for _ in range(5000):
            async with asyncio.timeout(1e6):
                await asyncio.sleep(0.001)
            most = max(most, len(loop._timers))
        return most

    assert loop.run(scenario()) < 300


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=30))
def test_timers_run_by_time_and_then_in_the_order_they_were_set(delays: list[int]) -> None:
    ran: list[tuple[float, int]] = []
    with VirtualLoop() as loop:
        for number, delay in enumerate(delays):
            loop.call_later(delay, lambda number=number: ran.append((loop.time(), number)))
        loop.run(asyncio.sleep(6))
    assert ran == sorted((float(delay), number) for number, delay in enumerate(delays))


def test_a_group_that_fails_ends_its_tasks_in_the_same_order_each_time() -> None:
    def history() -> list[int]:
        ended: list[int] = []

        async def sleeps(number: int) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(number)

        async def fails() -> None:
            await asyncio.sleep(1)
            raise ValueError

        async def scenario() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(sleeps(number))
                group.create_task(fails())

        with VirtualLoop() as loop, pytest.raises(ExceptionGroup):
            loop.run(scenario())
        return ended

    kept: list[Any] = []
    histories = []
    for size in range(5):
        kept.append([object() for _ in range(1000 * size)])  # moves what is allocated next
        histories.append(history())
    assert all(each == histories[0] for each in histories)
    assert len(kept) == 5


class TestFrozenProcess:
    def test_it_does_nothing_until_it_thaws_while_time_goes_on(self, loop: VirtualLoop) -> None:
        ticks: list[float] = []

        async def ticker() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())

        async def scenario() -> None:
            process = loop.process("frozen")
            process.spawn(ticker())
            await asyncio.sleep(2.5)
            process.freeze()
            await asyncio.sleep(30)
            process.thaw()
            await asyncio.sleep(1.1)

        loop.run(scenario())
        assert ticks == [1, 2, 32.5, 33.5]

    def test_what_its_tasks_start_belongs_to_it(self, loop: VirtualLoop) -> None:
        done: list[float] = []

        async def child() -> None:
            await asyncio.sleep(1)
            done.append(loop.time())

        async def parent() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(child())

        async def scenario() -> None:
            process = loop.process("frozen")
            process.spawn(parent())
            await asyncio.sleep(0.5)
            process.freeze()
            await asyncio.sleep(10)
            process.thaw()
            await asyncio.sleep(0)

        loop.run(scenario())
        assert done == [10.5]

    def test_it_wakes_to_what_others_sent_before_its_own_timers(self, loop: VirtualLoop) -> None:
        woken: list[str] = []

        async def waits(event: asyncio.Event) -> None:
            try:
                async with asyncio.timeout(5):
                    await event.wait()
                    woken.append("sent")
            except TimeoutError:
                woken.append("timeout")

        async def scenario() -> None:
            process, event = loop.process("frozen"), asyncio.Event()
            process.spawn(waits(event))
            await asyncio.sleep(1)
            process.freeze()
            await asyncio.sleep(10)
            event.set()
            await asyncio.sleep(1)
            assert woken == []
            process.thaw()
            await asyncio.sleep(0)

        loop.run(scenario())
        assert woken == ["sent"]

    def test_a_deadlock_behind_it_says_so(self, loop: VirtualLoop) -> None:
        async def scenario() -> None:
            process = loop.process("frozen")
            task = process.spawn(asyncio.sleep(1))
            process.freeze()
            await task

        with pytest.raises(VirtualTimeError, match="frozen"):
            loop.run(scenario())
