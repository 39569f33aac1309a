"""How the rows of a window say that their requests were served."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgdr_retune.replay import Recorded, load_recorded, load_trace

WHOLE: dict[str, Any] = {
    "cached_tokens": 0,
    "prefill_wait_time_ms": 1.5,
    "prefill_time_ms": 2.5,
    "ttft_ms": 4.0,
    "total_time_ms": 9.0,
    "worker": {"prefill_worker_id": 7, "decode_worker_id": 7},
}


def row(number: int, served: dict[str, Any], *, received_ms: int | None = None) -> dict[str, Any]:
    return {
        "event": {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "event_time_unix_ms": 1000 + number,
            "request": {
                "request_id": f"r{number}",
                "output_tokens": 3,
                "request_received_ms": 1000 + number if received_ms is None else received_ms,
                "replay": {"trace_block_size": 4, "input_length": 4, "input_sequence_hashes": [number]},
                **served,
            },
        }
    }


def loaded(directory: Path, lines: list[str]) -> Recorded:
    path = directory / "1.jsonl.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    recorded = load_recorded(path)
    assert len(recorded.known) == len(load_trace(path)) == len(lines)
    return recorded


def rows(directory: Path, *served: dict[str, Any]) -> Recorded:
    return loaded(directory, [json.dumps(row(number, each)) for number, each in enumerate(served)])


def test_rows_without_latencies_or_with_two_workers_are_not_known(tmp_path: Path) -> None:
    split = {**WHOLE, "worker": {"prefill_worker_id": 7, "decode_worker_id": 8}}
    late = {**WHOLE, "ttft_ms": 10.0}
    recorded = rows(tmp_path, {}, WHOLE, split, late)
    assert recorded.known.tolist() == [False, True, False, False]
    assert (recorded.wait_ms[1], recorded.prefill_ms[1], recorded.ttft_ms[1], recorded.total_ms[1]) == (1.5, 2.5, 4, 9)
    assert recorded.worker.tolist() == [-1, 0, -1, 0]
    assert recorded.cached_tokens.tolist() == [-1, 0, 0, 0]
    assert np.isnan(recorded.ttft_ms).tolist() == [True, False, False, True]


def test_a_first_token_before_the_prefill_was_over_is_not_known(tmp_path: Path) -> None:
    recorded = rows(tmp_path, *({**WHOLE, "prefill_time_ms": prefill_ms} for prefill_ms in (4.1, 4.0)))
    assert recorded.known.tolist() == [False, True]


def test_latencies_stand_beside_their_requests_in_a_window_that_another_has_cut(tmp_path: Path) -> None:
    arrivals = (1020, 1005, 1010)
    lines = [
        json.dumps(row(number, {**WHOLE, "ttft_ms": number}, received_ms=received_ms))
        for number, received_ms in enumerate(arrivals)
    ]
    recorded = loaded(tmp_path, lines)
    trace = load_trace(tmp_path / "1.jsonl.gz")
    assert trace.hashes.tolist() == recorded.ttft_ms.tolist() == [1, 2, 0]


def test_latencies_stand_beside_their_requests_where_other_events_were_recorded_too(tmp_path: Path) -> None:
    tool = '{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":1}}\n'
    lines = [json.dumps(row(number, {**WHOLE, "ttft_ms": number})) for number in range(3)]
    recorded = loaded(tmp_path, [tool + line for line in lines])
    trace = load_trace(tmp_path / "1.jsonl.gz")
    assert trace.hashes.tolist() == recorded.ttft_ms.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "absurd",
    [
        {"prefill_time_ms": 1e308},
        {"prefill_wait_time_ms": 86_400_001},
        {"prefill_time_ms": 0.0},
        {"ttft_ms": -1.0},
        {"total_time_ms": 1e308},
        {"cached_tokens": 2**64 - 1},
    ],
)
def test_what_nobody_can_have_measured_is_not_known(tmp_path: Path, absurd: dict[str, Any]) -> None:
    recorded = rows(tmp_path, WHOLE, {**WHOLE, **absurd})
    assert recorded.known.tolist() == [True, False]
    assert recorded.cached_tokens.max() == 0
    for column in (recorded.wait_ms, recorded.prefill_ms, recorded.ttft_ms, recorded.total_ms):
        assert not (column > 86_400_000).any()
        assert not (column < 0).any()


def test_workers_are_told_apart_by_ids_of_any_size(tmp_path: Path) -> None:
    ids = (2**64 - 1, 2**64 - 2, 2**64 - 1, 0)
    recorded = rows(
        tmp_path, *({**WHOLE, "worker": {"prefill_worker_id": each, "decode_worker_id": each}} for each in ids)
    )
    assert recorded.worker.tolist() == [0, 1, 0, 2]


def test_a_valid_row_of_uncommon_form_is_no_error(tmp_path: Path) -> None:
    bare = json.dumps(row(0, WHOLE)["event"])
    beside = json.dumps({**row(1, WHOLE), "request": 5, "agent": [1]})
    twice = json.dumps(row(2, WHOLE)).replace('"ttft_ms": 4.0', '"ttft_ms": "x", "ttft_ms": 4.0')
    unknown = json.dumps(row(3, {**WHOLE, "colour": {"of": "money"}}))
    recorded = loaded(tmp_path, [bare, beside, twice, unknown])
    assert recorded.known.tolist() == [True, False, False, True]
