"""Looks at a claim and looks at the Runs that use it take turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dgdr_retune.controllers._caches import Key


class Turns:
    """Keeps the release of a claim apart from a Run that is on its way to its Job.

    A look at a Run that was deleted meanwhile may still create its Job. Whoever finds that Run gone, and no Job of it,
    must not let the claim go before that look has ended. Runs of one claim do not wait for each other.
    """

    def __init__(self) -> None:
        self._runs: Counter[Key] = Counter()
        self._claims: set[Key] = set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def of_run(self, claim: Key) -> AsyncIterator[None]:
        """For a look at a Run that uses the claim."""
        while claim in self._claims:
            await self._changed.wait()
        self._runs[claim] += 1
        try:
            yield
        finally:
            self._runs[claim] -= 1
            if not self._runs[claim]:
                del self._runs[claim]
            self._wake()

    @asynccontextmanager
    async def of_claim(self, claim: Key) -> AsyncIterator[None]:
        """For a look at the claim; the next looks at its Runs wait for it."""
        self._claims.add(claim)
        try:
            while claim in self._runs:
                await self._changed.wait()
            yield
        finally:
            self._claims.discard(claim)
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
