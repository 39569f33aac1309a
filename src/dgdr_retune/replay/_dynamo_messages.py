"""What `DynamoEngine` and its child process say to each other, in lines of JSON."""

from typing import Any

import msgspec


class Replay(msgspec.Struct):
    """One replay: the arguments of the runtime's call, but for its trace; engine and workers by pool."""

    engines: list[dict[str, Any]]
    router: dict[str, float]
    workers: list[int]
    speedup: float
    ttft_ms: float | None
    itl_ms: float | None
    e2e_ms: float | None
    per_request: bool


class PerRequest(msgspec.Struct):
    """What the runtime says about one request; times in simulated milliseconds."""

    arrival_time_ms: float
    input_length: int
    requested_output_length: int
    ttft_ms: float | None
    itl_ms: float | None
    e2e_latency_ms: float | None


class Ready(msgspec.Struct):
    """What the installed runtime can do, or why it cannot be used."""

    deterministic: bool = False
    error: str = ""


class Answer(msgspec.Struct):
    """The runtime's summary without what is no finite number, which JSON cannot say, or why there is none."""

    summary: dict[str, float] = {}
    per_request: list[PerRequest] = []
    error: str = ""
