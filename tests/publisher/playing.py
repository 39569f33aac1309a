"""A publisher at work, and what happens around it."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.publisher.snapshots import candidate
from tests.publisher.world import RUN, World

from dgdr_retune.api import candidate_name
from dgdr_retune.publisher._errors import Exit

Script = list[tuple[float, Callable[[], Awaitable[None] | None]]]


async def played(world: World, script: Script = ()) -> Exit:
    """A publisher, and what happens around it at times counted from its start."""

    async def play_script() -> None:
        for at_s, step in script:
            await asyncio.sleep(at_s - (asyncio.get_running_loop().time() - begun))
            if (waiting := step()) is not None:
                await waiting

    begun = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(world.publish())
        playing = group.create_task(play_script())
        await asyncio.wait((publishing,))
        playing.cancel()
    return publishing.result()


async def named(world: World, *numbers: float) -> list[str]:
    uid = (await world.run())["metadata"]["uid"]
    return [candidate_name(RUN, uid, candidate(each)["id"]) for each in numbers]
