"""Rows on the specification that Request and Run share: each bound and each rule from both sides."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve
from tests.contract.cases import (
    NOT_ABOVE,
    NUMBER_MAX,
    REQUIRED,
    TOO_FEW,
    TOO_LARGE,
    TOO_LONG,
    TOO_MANY,
    TOO_SHORT,
    TOO_SMALL,
    UNSUPPORTED,
    Case,
    count,
    enum,
    objects,
    positive,
    required,
    rule,
    text,
    typed,
)
from tests.contract.row import Row, cut, put, thing

from dgdr_retune.api import REQUEST, RUN

Json = Any

STATIC: Json = {
    "modelRef": {"name": "Qwen/Qwen3-0.6B"},
    "backends": ["vllm"],
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
    "workload": {"static": {"isl": 1024, "osl": 128, "concurrency": 10}},
}
TRACE: Json = put(
    STATIC,
    "workload",
    {
        "trace": {
            "source": {
                "persistentVolumeClaim": {
                    "claimName": "request-traces",
                    "subPath": "retune/qwen/1790000000000.jsonl.gz",
                }
            },
            "replay": {"arrivalSpeedupRatio": 2},
        }
    },
)
GOODPUT: Json = put(
    STATIC, "objective", {"mode": "Optimize", "metric": "GoodputPerGPU", "sla": {"ttftMs": 500, "itlMs": 20}}
)
PARETO: Json = put(STATIC, "objective", {"mode": "Pareto", "metrics": ["Throughput", "TTFT"]})
BUDGET: Json = put(
    STATIC,
    "search.budget",
    {"maxRounds": 3, "candidatesPerRound": 2, "parallelEvaluations": 2, "maxEvaluationDuration": "120s"},
)

CLAIM = "workload.trace.source.persistentVolumeClaim"


def _model() -> Iterator[Case]:
    yield from required(STATIC, "modelRef", "modelRef.name")
    yield from objects(STATIC, "modelRef")
    yield from text(STATIC, "modelRef.name", min_length=1, max_length=1024)
    yield from text(STATIC, "modelRef.revision", min_length=None, max_length=256)
    yield from text(STATIC, "image", min_length=1, max_length=1024)


def _backends() -> Iterator[Case]:
    once = "backends:name each backend once"
    yield from required(STATIC, "backends")
    yield from typed(STATIC, "backends", "vllm", "array")
    yield from typed(STATIC, "backends", {}, "array")
    yield Case("backends:type", "list", STATIC)
    yield Case("backends:minItems", "one", put(STATIC, "backends", ["trtllm"]))
    yield Case("backends:minItems", "none", put(STATIC, "backends", []), TOO_FEW, "backends")
    yield Case("backends:maxItems", "three", put(STATIC, "backends", ["vllm", "sglang", "trtllm"]))
    yield Case("backends:maxItems", "four", put(STATIC, "backends", ["vllm", "sglang", "trtllm", "vllm"]), TOO_MANY)
    yield Case("backends[]:enum", "sglang", put(STATIC, "backends", ["sglang"]))
    yield Case("backends[]:enum", "VLLM", put(STATIC, "backends", ["VLLM"]), UNSUPPORTED, "backends[0]")
    yield Case("backends[]:type", "string", STATIC)
    yield Case("backends[]:type", "1", put(STATIC, "backends", [1]), "must be of type string", "backends[0]")
    yield Case("backends[]:type", "null", put(STATIC, "backends", [None]), "must be of type string", "backends[0]")
    yield from rule(once, STATIC, "backends", (["vllm", "sglang"],), (["vllm", "vllm"], ["vllm", "sglang", "vllm"]))


def _hardware() -> Iterator[Case]:
    yield from required(STATIC, "hardware", "hardware.gpu", "hardware.gpu.sku", "hardware.gpu.budget")
    yield from objects(STATIC, "hardware", "hardware.gpu")
    yield from text(STATIC, "hardware.gpu.sku", min_length=1, max_length=128)
    yield from count(STATIC, "hardware.gpu.budget")


def _static() -> Iterator[Case]:
    one_load = "workload.static:set exactly one of requestRate, concurrency and kvLoadRatio"
    shape = {"isl": 1, "osl": 1}
    kv = put(STATIC, "workload.static", shape | {"kvLoadRatio": [0.5]})
    yield from required(STATIC, "workload.static.isl", "workload.static.osl")
    yield from objects(STATIC, "workload", "workload.static")
    yield from count(STATIC, "workload.static.isl")
    yield from count(STATIC, "workload.static.osl")
    yield from count(STATIC, "workload.static.concurrency")
    yield Case("workload.static.isl:type", "whole float", put(STATIC, "workload.static.isl", 1.0))
    read_by_rule = put(STATIC, "workload.static.concurrency", 1.0)
    yield Case("workload.static.concurrency:type", "whole float, which a rule reads", read_by_rule, "expected int")
    yield from positive(put(STATIC, "workload.static", shape), "workload.static.requestRate")
    ratio = "workload.static.numRequestRatio"
    yield Case(f"{ratio}:type", "number", put(STATIC, ratio, 1.5))
    yield from typed(STATIC, ratio, "1", "number")
    yield Case(f"{ratio}:minimum", "one", put(STATIC, ratio, 1))
    yield Case(f"{ratio}:minimum", "less", put(STATIC, ratio, 0.99), TOO_SMALL, ratio)
    yield Case(f"{ratio}:maximum", "most", put(STATIC, ratio, NUMBER_MAX))
    yield Case(f"{ratio}:maximum", "more", put(STATIC, ratio, NUMBER_MAX + 1), TOO_LARGE, ratio)
    fill = "workload.static.kvLoadRatio"
    both = put(PARETO, "workload.static", shape | {"kvLoadRatio": [0.5, 0.9]})
    yield Case(f"{fill}:type", "list", kv)
    yield from typed(kv, fill, 0.5, "array")
    yield Case(f"{fill}:minItems", "one", kv)
    yield Case(f"{fill}:minItems", "none", put(kv, fill, []), TOO_FEW, fill)
    yield Case(f"{fill}:maxItems", "two", both)
    yield Case(f"{fill}:maxItems", "three", put(both, fill, [0.1, 0.2, 0.3]), TOO_MANY, fill)
    yield Case(f"{fill}[]:type", "number", put(kv, fill, [1]))
    yield Case(f"{fill}[]:type", "string", put(kv, fill, ["1"]), "must be of type number", f"{fill}[0]")
    yield Case(f"{fill}[]:exclusiveMinimum", "just above", put(kv, fill, [1e-9]))
    yield Case(f"{fill}[]:exclusiveMinimum", "zero", put(kv, fill, [0]), NOT_ABOVE, f"{fill}[0]")
    yield Case(f"{fill}[]:maximum", "most", put(kv, fill, [NUMBER_MAX]))
    yield Case(f"{fill}[]:maximum", "more", put(kv, fill, [NUMBER_MAX + 1]), TOO_LARGE, f"{fill}[0]")
    pareto = f"{fill}:a range of kvLoadRatio needs objective mode Pareto"
    yield Case(pareto, "two values with Pareto", both)
    yield Case(pareto, "one value with Optimize", kv)
    optimize = put(both, "objective", {"mode": "Optimize", "metric": "Throughput"})
    yield Case(pareto, "two values with Optimize", optimize, "needs objective mode Pareto", fill)
    yield Case(pareto, "two values, objective by default", cut(both, "objective"), "needs objective mode Pareto", fill)
    loads = {"requestRate": 2.5, "concurrency": 10, "kvLoadRatio": [0.8]}
    good = tuple(shape | {name: loads[name]} for name in loads)
    bad = (shape, shape | loads, *(shape | {k: v for k, v in loads.items() if k != name} for name in loads))
    yield from rule(one_load, STATIC, "workload.static", good, bad)


def _trace() -> Iterator[Case]:
    source = ("workload.trace.source", "workload.trace.source.persistentVolumeClaim")
    yield from required(TRACE, *source, f"{CLAIM}.claimName", f"{CLAIM}.subPath")
    yield from objects(TRACE, "workload.trace", *source, "workload.trace.replay")
    yield from enum(TRACE, "workload.trace.format", ("Dynamo",), ("dynamo", "mooncake", ""))
    yield from positive(TRACE, "workload.trace.replay.arrivalSpeedupRatio")
    yield Case("workload.trace.replay:type", "absent", cut(TRACE, "workload.trace.replay"))
    yield Case("workload.trace.replay:type", "empty", put(TRACE, "workload.trace.replay", {}))
    both = put(TRACE, "workload.static", STATIC["workload"]["static"])
    one = "workload:set exactly one of static and trace"
    yield Case(one, "trace", TRACE)
    yield Case(one, "static", STATIC)
    yield Case(one, "both", both, "set exactly one of static and trace", "workload")
    yield Case(one, "neither", put(STATIC, "workload", {}), "set exactly one of static and trace", "workload")
    yield from _claim()


def _claim() -> Iterator[Case]:
    name, path = f"{CLAIM}.claimName", f"{CLAIM}.subPath"
    yield from text(TRACE, name, min_length=1, max_length=253)
    yield from text(TRACE, path, min_length=1, max_length=1024)
    yield Case(f"{path}:maxLength", "1024 characters of two bytes", put(TRACE, path, "é" * 1024))
    yield Case(f"{path}:maxLength", "1025 characters of two bytes", put(TRACE, path, "é" * 1025), TOO_LONG, path)
    yield from rule(
        f"{name}:must be a DNS-1123 subdomain",
        TRACE,
        name,
        ("a", "0", "a-b", "a.b", "a-0.b-1", "a--b", "a" * 100 + ".b"),
        ("A", "-a", "a-", "a_b", "a.", ".a", "a..b", "a.-b", "a/b", "a b", "ä", "a\n", " a"),
    )
    yield from rule(
        f"{path}:must be relative to the claim's root", TRACE, path, ("a", "a/b"), ("/", "/a", "//a", "/var/run/x")
    )
    yield from rule(
        f"{path}:must name one file: no empty, . or .. segment",
        TRACE,
        path,
        ("a", "a/b.jsonl.gz", ".a", "..a", "a..", "...", "a/.b/..c", "a b", "ü/ß", "a\nb", "-"),
        (".", "..", "a/", "a//b", "a/./b", "a/../b", "../a", "a/..", "./a", "a/."),
    )
    yield from rule(f"{path}:must not contain NUL", TRACE, path, ("a\x01b",), ("\0", "a\0b", "a/\0"))


def _objective() -> Iterator[Case]:
    metrics = ("Throughput", "ThroughputPerGPU", "ThroughputPerUser", "TTFT", "E2ELatency", "Goodput", "GoodputPerGPU")
    yield from required(GOODPUT, "objective.mode")
    yield from objects(GOODPUT, "objective", "objective.sla")
    yield from enum(GOODPUT, "objective.mode", ("Optimize",), ("optimize", "Maximise"))
    yield Case("objective.mode:enum", "Pareto", PARETO)
    yield from enum(GOODPUT, "objective.metric", metrics, ("goodput", "throughputPerGpu", "MinGPUs"))
    listed = "objective.metrics"
    yield Case(f"{listed}:type", "list", PARETO)
    yield from typed(PARETO, listed, "TTFT", "array")
    yield Case(f"{listed}:minItems", "two", PARETO)
    yield Case(f"{listed}:minItems", "one", put(PARETO, listed, ["TTFT"]), TOO_FEW, listed)
    yield Case(f"{listed}:maxItems", "all seven", put(PARETO, listed, list(metrics)))
    yield Case(f"{listed}:maxItems", "eight", put(PARETO, listed, [*metrics, "TTFT"]), TOO_MANY, listed)
    yield Case(f"{listed}[]:enum", "Goodput", put(PARETO, listed, ["Goodput", "TTFT"]))
    yield Case(f"{listed}[]:enum", "ttft", put(PARETO, listed, ["Goodput", "ttft"]), UNSUPPORTED, f"{listed}[1]")
    yield Case(f"{listed}[]:type", "string", PARETO)
    yield Case(f"{listed}[]:type", "1", put(PARETO, listed, ["TTFT", 1]), "must be of type string", f"{listed}[1]")
    yield from rule(f"{listed}:name each metric once", PARETO, listed, (["TTFT", "Goodput"],), (["TTFT", "TTFT"],))
    optimize = {"mode": "Optimize"}
    yield from rule(
        "objective:mode Optimize takes metric, not metrics",
        STATIC,
        "objective",
        (optimize | {"metric": "TTFT"},),
        (
            optimize,
            optimize | {"metrics": ["TTFT", "Goodput"]},
            optimize | {"metric": "TTFT", "metrics": ["TTFT", "Goodput"]},
        ),
    )
    pareto = {"mode": "Pareto"}
    yield from rule(
        "objective:mode Pareto takes metrics, not metric",
        STATIC,
        "objective",
        (pareto, pareto | {"metrics": ["TTFT", "Goodput"]}),
        (pareto | {"metric": "TTFT"}, pareto | {"metric": "TTFT", "metrics": ["TTFT", "Goodput"]}),
    )
    for bound, rest in (("ttftMs", {"itlMs": 20}), ("itlMs", {"ttftMs": 500}), ("e2eMs", {})):
        yield from positive(put(GOODPUT, "objective.sla", rest), f"objective.sla.{bound}")
    yield from rule(
        "objective.sla:set e2eMs alone, or ttftMs and itlMs together",
        GOODPUT,
        "objective.sla",
        ({"e2eMs": 1}, {"ttftMs": 1, "itlMs": 1}),
        (
            {},
            {"ttftMs": 1},
            {"itlMs": 1},
            {"e2eMs": 1, "ttftMs": 1},
            {"e2eMs": 1, "itlMs": 1},
            {"e2eMs": 1, "ttftMs": 1, "itlMs": 1},
        ),
    )


def _search() -> Iterator[Case]:
    yield from required(BUDGET, "search.budget.maxRounds", "search.budget.parallelEvaluations")
    yield from objects(BUDGET, "search", "search.budget")
    for name in ("maxRounds", "candidatesPerRound", "parallelEvaluations"):
        yield from count(BUDGET, f"search.budget.{name}")
    duration = "search.budget.maxEvaluationDuration"
    yield from typed(BUDGET, duration, 120, "string")
    yield Case(f"{duration}:type", "string", BUDGET)
    yield Case(f"{duration}:minLength", "two", put(BUDGET, duration, "1s"))
    yield Case(f"{duration}:minLength", "one", put(BUDGET, duration, "1"), TOO_SHORT, duration)
    yield Case(f"{duration}:maxLength", "64", put(BUDGET, duration, "12345.123456789ms" * 3 + "12345.123456s"))
    yield Case(
        f"{duration}:maxLength", "65", put(BUDGET, duration, "12345.123456789ms" * 3 + "12345.1234567s"), TOO_LONG
    )
    yield from rule(
        f"{duration}:must be a duration such as 120s",
        BUDGET,
        duration,
        ("120s", "1.5h", "2m30s", "99999h", "500ms", "0.000000001s", "1h1m1s1ms"),
        (
            "120",
            "120 s",
            "-1s",
            "+1s",
            "1d",
            "s1",
            "1s1",
            "100000h",
            "1h1m1s1ms1s",
            "1.s",
            ".5s",
            "1us",
            "ONEs",
            "1s\n",
        ),
    )
    yield from rule(f"{duration}:must be longer than nothing", BUDGET, duration, ("0.1s", "0h1ms"), ("0s", "0h0.0s"))
    most = "recommendation.maxCandidates"
    yield from objects(put(STATIC, most, 6), "recommendation")
    yield from count(STATIC, most, maximum=100)


def _aisimulate() -> Iterator[Case]:
    patch = "aisimulate.inputOverrides"
    free = put(STATIC, patch, {"optimizer": {"algorithm": "random"}})
    yield from objects(free, "aisimulate", patch)
    yield from enum(STATIC, "aisimulate.generator", ("aic", "direct"), ("AIC", "none"))
    anything = {
        "traffic": None,
        "engine": {"model": None, "workers": [{"a": None}, None, [1.5, "x", True]]},
        "router": "a string",
        "x" * 300: 7,
        "": {},
    }
    yield Case(f"{patch}:free", "null and any content are kept", put(STATIC, patch, anything))
    yield Case("v1beta1:type", "null, which is not set", put(STATIC, "v1beta1", None))
    message = "this API serves v1beta2 alone"
    yield Case(f"v1beta1:{message}", "not set", STATIC)
    yield Case(f"v1beta1:{message}", "envelope beside fields", put(STATIC, "v1beta1", {"a": 1}), message, "v1beta1")
    yield Case(f"v1beta1:{message}", "empty envelope", put(STATIC, "v1beta1", {}), message, "v1beta1")
    yield from typed(STATIC, "v1beta1", "x", "object")


def _defaults() -> Iterator[Case]:
    minimal = cut(STATIC, "workload")
    workload = {"static": {"isl": 1024, "osl": 128, "concurrency": 10}}
    full = minimal | {
        "workload": workload,
        "objective": {"mode": "Optimize", "metric": "Throughput"},
        "search": {"budget": {"maxRounds": 20, "parallelEvaluations": 16}},
        "recommendation": {"maxCandidates": 5},
        "aisimulate": {"generator": "aic"},
    }
    yield Case("objective:default", "all fields but the workload", STATIC, stored=full)
    for name in ("objective", "search", "recommendation", "aisimulate"):
        yield Case(f"{name}:default", "null", STATIC | {name: None}, stored=full)
    yield Case("search.budget:default", "empty search", STATIC | {"search": {}}, stored=full)
    yield Case("recommendation.maxCandidates:default", "empty", STATIC | {"recommendation": {}}, stored=full)
    yield Case("aisimulate.generator:default", "empty", STATIC | {"aisimulate": {}}, stored=full)
    trace = full | {"workload": put(TRACE, "workload.trace.format", "Dynamo")["workload"]}
    yield Case("workload.trace.format:default", "absent", TRACE, stored=trace)
    yield Case("workload.trace.format:default", "null", put(TRACE, "workload.trace.format", None), stored=trace)
    floats = put(put(STATIC, "hardware.gpu.budget", 2.0), "aisimulate.inputOverrides", {"a": [1.0, 0.5, 1e3, -0.0]})
    whole = full | {"aisimulate": {"generator": "aic", "inputOverrides": {"a": [1, 0.5, 1000, 0]}}}
    yield Case("hardware.gpu.budget:type", "whole floats come back as integers", floats, stored=whole)


def cases() -> Iterator[Case]:
    """Every case, once."""
    for part in (_model, _backends, _hardware, _static, _trace, _objective, _search, _aisimulate, _defaults):
        yield from part()


def rows() -> Iterator[Row]:
    """Every case on a Request and on a Run, and what differs between the two."""
    for kind in (REQUEST, RUN):
        for case in cases():
            yield _row(kind, case)
    minimal = cut(STATIC, "workload")
    absent = Case("workload:required", "absent", minimal, REQUIRED, "workload")
    yield _row(RUN, absent)
    yield _row(RUN, evolve(absent, note="present", value=STATIC, refused="", field=""))
    yield _row(RUN, evolve(absent, note="null", value=minimal | {"workload": None}))
    for note, spec in (("absent", minimal), ("null", minimal | {"workload": None})):
        stored = next(case.stored for case in cases() if case.constraint == "objective:default")
        yield _row(REQUEST, Case("workload:default", note, spec, stored=stored))


def _row(kind: Any, case: Case) -> Row:
    return Row(
        id=f"{kind.short} create {case.constraint} {case.note}",
        kind=kind,
        operation="create",
        object=thing(kind, case.value),
        refused=case.refused,
        field=f"spec.{case.field}" if case.field else "",
        constraint=f"spec.{case.constraint}",
        stored={} if case.stored is None else {"spec": case.stored},
    )
