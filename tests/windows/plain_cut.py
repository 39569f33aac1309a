"""The rules of a cut once more, straight from their text, with the standard library alone. For undamaged segments."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgdr_retune.windows import Window

U64 = range(2**64)
COUNTERS = ["input_tokens", "cached_tokens", "queue_depth"]
TIMES = [
    *("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms", "total_time_ms", "avg_itl_ms", "kv_hit_rate"),
    "kv_transfer_estimated_latency_ms",
]


def unsigned(value: Any, least: int = 0) -> bool:
    return type(value) is int and value in U64 and value >= least


def is_valid(event: Any) -> bool:
    try:
        request = event["request"]
        replay = request["replay"]
        length, size, hashes = (
            replay[f"{name}"] for name in ("input_length", "trace_block_size", "input_sequence_hashes")
        )
        return (
            event["schema"] == "dynamo.request.trace.v1"
            and unsigned(event["event_time_unix_ms"])
            and isinstance(request["request_id"], str)
            and request["request_id"] != ""
            and unsigned(request["output_tokens"])
            and unsigned(request["request_received_ms"])
            and all(unsigned(request[name]) for name in COUNTERS if name in request)
            and all(type(request[name]) in (int, float) for name in TIMES if name in request)
            and request.get("total_time_ms", 0) >= 0
            and all(unsigned(value) for value in request.get("worker", {}).values())
            and unsigned(length, 1)
            and unsigned(size, 1)
            and all(map(unsigned, hashes))
            and len(hashes) == (length + size - 1) // size
        )
    except (KeyError, TypeError):
        return False


def lines_of(segments: Path) -> Iterator[tuple[tuple[str, int, int], bytes]]:
    """The lines of all segments that are not blank, each with its place: (pod, segment index, line)."""
    for pod in sorted(segments.iterdir()):
        named = [(re.fullmatch(r".*\.(\d{6,})\.jsonl\.gz", path.name), path) for path in pod.iterdir()]
        for index, path in sorted((int(match[1]), path) for match, path in named if match):
            for number, line in enumerate(gzip.decompress(path.read_bytes()).split(b"\n")):
                if line.strip():
                    yield (pod.name, index, number), line


def plain_cut(segments: Path, window: Window) -> tuple[list[bytes], Counter[str]]:
    """The rows of a window, each with its line end, and the counts."""
    counts: Counter[str] = Counter()
    selected = []
    for place, line in lines_of(segments):
        parsed = json.loads(line)
        event = parsed.get("event", parsed)
        if event.get("event_type") != "request_end":
            counts["other_events"] += 1
        elif not is_valid(event):
            counts["malformed"] += 1
        elif window.start_ms <= (start := event["request"]["request_received_ms"]) < window.end_ms:
            end = event["event_time_unix_ms"]
            if end > window.cutoff_ms:
                counts["censored"] += 1
                continue
            if "total_time_ms" in event["request"]:
                end = start + int(event["request"]["total_time_ms"] + 0.5)
            selected.append(((start, end, place), event["request"]["request_id"], line + b"\n"))
    first: dict[str, tuple[int, int, str, bytes]] = {}
    for place, request_id, line in sorted(selected):
        if request_id in first:
            counts["duplicates"] += 1
        else:
            first[request_id] = (place[0], place[1], request_id, line)
    rows = [line for *_, line in sorted(first.values())]
    counts["rows"] = len(rows)
    return rows, counts
