"""The child process in which Dynamo's replay runtime works for `DynamoEngine`.

Started as `python -m dgdr_retune.replay._dynamo_child TRACE PARENT` with the number of an inherited file of trace
records and the parent's process id. Writes lines of JSON to what was its stdout: `Ready`, then an `Answer` for each
`Replay` that it reads from stdin, until that ends. What the runtime itself prints goes to stderr.
"""

import inspect
import math
import os
import sys
from typing import Any

import msgspec

from dgdr_retune._process import die_with
from dgdr_retune.replay._dynamo_messages import Answer, PerRequest, Ready, Replay


def main(arguments: list[str]) -> None:
    """Serve the parent until it closes stdin."""
    trace, parent = map(int, arguments)
    die_with(parent)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    ready = _look()
    answers.write(msgspec.json.encode(ready) + b"\n")
    decode = msgspec.json.Decoder(Replay).decode
    for line in sys.stdin.buffer:
        answer = _answer(f"/proc/self/fd/{trace}", decode(line), deterministic=ready.deterministic)
        answers.write(msgspec.json.encode(answer) + b"\n")


def _look() -> Ready:
    try:
        from dynamo import _core  # noqa: PLC0415 -- its failure is an answer
    except ImportError as error:
        return Ready(error=str(error))
    return Ready(deterministic="_deterministic" in inspect.signature(_core.run_mocker_trace_replay).parameters)


def _answer(trace: str, replay: Replay, *, deterministic: bool) -> Answer:
    try:
        return _replay(trace, replay, deterministic=deterministic)
    except Exception as error:  # noqa: BLE001 -- whatever the runtime raises is the answer to this replay
        return Answer(error=f"{type(error).__name__}: {error}")


def _replay(trace: str, replay: Replay, *, deterministic: bool) -> Answer:
    from dynamo import _core  # noqa: PLC0415 -- see `_look`
    from dynamo.llm import KvRouterConfig  # noqa: PLC0415 -- see `_look`

    runtime: Any = _core
    result = runtime.run_mocker_trace_replay(
        [trace],
        trace_format="dynamo",
        router_mode="kv_router",
        router_config=KvRouterConfig.from_json(msgspec.json.encode(replay.router).decode()),
        arrival_speedup_ratio=replay.speedup,
        sla_ttft_ms=replay.ttft_ms,
        sla_itl_ms=replay.itl_ms,
        sla_e2e_ms=replay.e2e_ms,
        capture_per_request=replay.per_request,
        **_pools(runtime, replay),
        **({"_deterministic": True} if deterministic else {}),
    )
    summary = {
        name: value for name, value in result.summary.items() if isinstance(value, int | float) and math.isfinite(value)
    }
    rows = msgspec.convert(result.per_request or [], list[PerRequest])
    return Answer(summary=summary, per_request=rows)


def _pools(runtime: Any, replay: Replay) -> dict[str, Any]:
    engines = [runtime._normalize_mocker_config(engine) for engine in replay.engines]  # noqa: SLF001 -- the only way in
    if len(engines) == 1:
        return {"extra_engine_args": engines[0], "num_workers": replay.workers[0]}
    return {
        "prefill_engine_args": engines[0],
        "num_prefill_workers": replay.workers[0],
        "decode_engine_args": engines[1],
        "num_decode_workers": replay.workers[1],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
