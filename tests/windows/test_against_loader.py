"""Dynamo's own loader takes every row that is published."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mutated_rows import mutated_rows
from window_cases import RECORDED, Unsynced, line, member, published_rows, record

from dgdr_retune.windows import CutRequest, Place, Window, cut
from dgdr_retune.windows._judge import judge
from dgdr_retune.windows._row import Refusal, Row

pytestmark = pytest.mark.dynamo

STRICTER_RULES = {
    Refusal.FIELD: "types as listed, request_received_ms present",
    Refusal.HASH_COUNT: "hash count exact",
    Refusal.DEPTH: "depth at most 120 in all fields",
    Refusal.REPEATED_EVENT: "a repeated event is refused",
}
"""By which a row is refused that the loader takes: traces-and-router.md A5, validity and A4, duplicate keys."""

MOST_TOKENS = 2**20
"""The loader holds every token of a row; it must not be asked to hold what a mutated row claims."""


class Loader:
    """Dynamo's offline replay of one file."""

    def __init__(self, directory: Path) -> None:
        core = pytest.importorskip("dynamo._core")
        self._replay = core.run_mocker_trace_replay
        self._engine = core._normalize_mocker_config({"engine": {"backend": "vllm"}})
        self._path = directory / "window.jsonl.gz"

    def refusal(self, rows: list[bytes]) -> str | None:
        """Why the loader does not take a file of these rows."""
        self._path.write_bytes(gzip.compress(b"".join(one + b"\n" for one in rows), 1))
        return self.refusal_of(self._path)

    def refusal_of(self, path: Path) -> str | None:
        """Why the loader does not take a file."""
        try:
            self._replay(
                [str(path)],
                trace_format="dynamo",
                num_workers=2,
                router_mode="kv_router",
                extra_engine_args=self._engine,
            )
        except Exception as error:  # noqa: BLE001  # the loader has no type of error of its own
            return str(error)
        return None


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    return Loader(tmp_path)


def test_no_published_row_is_refused_and_no_refused_row_is_taken_without_a_stricter_rule(loader: Loader) -> None:
    verdicts: Counter[str] = Counter()
    for done, mutated in mutated_rows(seed=20, count=4000):
        row = judge(mutated)
        if claims_too_much(mutated):
            assert not isinstance(row, Row), done
            continue
        refusal = loader.refusal([mutated])
        if isinstance(row, Row) and not row.agent:
            assert refusal is None, f"{done}: {refusal}: {mutated!r}"
            verdicts["published"] += 1
        elif refusal is None:
            assert row in STRICTER_RULES, f"{done}: refused ({row}) and taken: {mutated!r}"
            verdicts["stricter"] += 1
        else:
            verdicts["refused by both"] += 1
    assert verdicts.total() >= 2000
    assert verdicts["published"] >= 0.3 * verdicts.total()
    assert verdicts["refused by both"] >= 0.1 * verdicts.total()


def claims_too_much(mutated: bytes) -> bool:
    try:
        parsed = json.loads(mutated)
        request = parsed.get("event", parsed)["request"]
        claims = [request["output_tokens"], request["replay"]["input_length"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return any(isinstance(claim, int) and claim > MOST_TOKENS for claim in claims)


def test_the_rows_that_are_published_together_are_taken_together(loader: Loader) -> None:
    rows = [mutated for _, mutated in mutated_rows(seed=21, count=600) if not claims_too_much(mutated)]
    judged = [(line, row) for line in rows if isinstance(row := judge(line), Row) and not row.agent]
    together = [line for line, row in judged if row.block_size == 64]
    assert len(together) > 150
    assert loader.refusal(together) is None


def test_a_window_of_the_recorded_segments_is_taken(loader: Loader, tmp_path: Path) -> None:
    window = Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000)
    request = CutRequest(
        segments=Place(str(RECORDED)),
        windows=Place(str(tmp_path)),
        name="chat",
        window=window,
        mtime_margin_s=1e9,
    )
    done = cut(request, filesystem=Unsynced())
    assert done.counts.rows == 8862
    assert loader.refusal_of(Path(str(done.path))) is None


def test_a_window_of_enveloped_and_bare_rows_is_taken(loader: Loader, write_segments: Any, request_for: Any) -> None:
    rows = [line(record(f"r{number:03}"), bare=number % 2 == 0) for number in range(100)]
    random.Random(1).shuffle(rows)  # noqa: S311  # not for secrets
    write_segments({"frontend-0": [member(*rows[:50])], "frontend-1": [member(*rows[50:])]})
    done = cut(request_for(), filesystem=Unsynced())
    assert sorted(published_rows(done)) == sorted(row + b"\n" for row in rows)
    assert loader.refusal_of(Path(str(done.path))) is None
