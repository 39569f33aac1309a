"""What a watch sends as time goes by: what was written, bookmarks, and its end."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from dgdr_retune.testing._json import encode
from dgdr_retune.testing._requests import Request
from dgdr_retune.testing._store import Store, Write
from dgdr_retune.testing._watch import Watch

BOOKMARK_EVERY_S: Final = 60.0
DEFAULT_WATCH_S: Final = 1800.0


async def follow(store: Store, watch: Watch, request: Request) -> AsyncGenerator[bytes]:
    """The lines of a watch until its time is up, on the loop's clock.

    Args:
        store: what the watch looks at.
        watch: as opened.
        request: what opened it; it says for how long, and whether there are to be bookmarks.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + float(request.query.get("timeoutSeconds") or DEFAULT_WATCH_S)
    wants_bookmarks = request.flag("allowWatchBookmarks")
    written = asyncio.Event()

    def notice(write: Write) -> None:
        if watch.is_about(write):
            written.set()

    store.listen(notice)
    try:
        while True:
            written.clear()
            for event in watch.take():
                yield encode(event) + b"\n"
            if watch.over:
                return
            try:
                async with asyncio.timeout_at(min(loop.time() + BOOKMARK_EVERY_S, end)):
                    await written.wait()
            except TimeoutError:
                for event in watch.take():  # that the past is gone, if so
                    yield encode(event) + b"\n"
                if wants_bookmarks and not watch.over:
                    yield encode(watch.bookmark()) + b"\n"
            if loop.time() >= end:
                return
    finally:
        store.unlisten(notice)
