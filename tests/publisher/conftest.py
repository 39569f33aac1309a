"""A world on virtual time."""

from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.publisher.world import World, make_world

from dgdr_retune.testing import VirtualLoop

Play = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """Virtual time."""
    with VirtualLoop() as loop:
        yield loop


@pytest.fixture
def play(loop: VirtualLoop) -> Play:
    """Run a scenario to its end; an hour is enough for each."""
    return lambda scenario: loop.run(scenario, until_s=loop.time() + 3600)


@pytest.fixture
def world(tmp_path: Path, loop: VirtualLoop, play: Play) -> World:
    """A Run and its pod; there is no snapshot yet."""
    made = make_world(tmp_path, loop)
    play(made.prepare())
    return made
