"""From a Request to AISimulate's input."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lowering.check_aisimulate import RESULT, documents, faulty_documents
from tests.lowering.varied_requests import (
    BASE,
    EXTRAS,
    FAULTS,
    OBJECTIVES,
    WORKLOADS,
    faulty,
    request_with,
    varied_requests,
)

from dgdr_retune.api import MAX_DEPTH, NO_HARDWARE, NO_SLA, canonical, spec_digest, to_v1beta1, validate
from dgdr_retune.lowering import LoweringError, TraceMount, lower, merge_patch

Json = Any

RESULT_DOCUMENT = json.loads(Path(RESULT).read_text())


def lowered(**spec: Json) -> Json:
    return lower(request_with(BASE | spec)).document


@pytest.mark.parametrize(
    ("workload", "traffic"),
    [
        (
            WORKLOADS["concurrency"],
            {
                "source": {"type": "synthetic", "input_tokens": 4000, "output_tokens": 1},
                "load": {"type": "concurrency", "concurrency": 64},
                "stop": {"requests": 100},
            },
        ),
        (
            WORKLOADS["rate"],
            {
                "source": {"type": "synthetic", "input_tokens": 1, "output_tokens": 500},
                "load": {"type": "poisson", "requests_per_second": 0.25},
                "stop": {"requests": 100},
            },
        ),
        (
            WORKLOADS["fill"],
            {
                "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
                "load": {"type": "kv_capacity_fraction", "fraction": 0.8},
                "stop": {"requests": 100},
            },
        ),
        (
            WORKLOADS["ratio"],
            {
                "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
                "load": {"type": "poisson", "requests_per_second": 2},
                "stop": {"requests_per_load_unit": 12.5},
            },
        ),
        (
            WORKLOADS["trace"],
            {
                "source": {
                    "type": "trace",
                    "format": "dynamo",
                    "paths": ["/var/run/aisimulate/trace/trace.jsonl.gz"],
                },
                "load": {"type": "trace_timestamps"},
            },
        ),
        (
            WORKLOADS["trace-slower"],
            {
                "source": {
                    "type": "trace",
                    "format": "dynamo",
                    "paths": ["/var/run/aisimulate/trace/trace.jsonl.gz"],
                },
                "load": {"type": "trace_timestamps", "speedup": 0.5},
            },
        ),
    ],
    ids=["concurrency", "rate", "fill", "ratio", "trace", "trace-slower"],
)
def test_each_workload_becomes_its_traffic_and_a_trace_has_no_stop(workload: Json, traffic: Json) -> None:
    assert lowered(workload=workload)["traffic"] == traffic


def test_a_request_without_a_workload_gets_the_default_one() -> None:
    assert lowered()["traffic"]["load"] == {"type": "concurrency", "concurrency": 10}


@pytest.mark.parametrize(
    ("metric", "target"),
    [
        ("Throughput", "throughput"),
        ("ThroughputPerGPU", "throughput_per_gpu"),
        ("ThroughputPerUser", "throughput_per_user"),
        ("TTFT", "ttft"),
        ("E2ELatency", "e2e_latency"),
        ("Goodput", "goodput"),
        ("GoodputPerGPU", "goodput_per_gpu"),
    ],
)
def test_each_metric_becomes_its_target(metric: str, target: str) -> None:
    document = lowered(objective={"mode": "Optimize", "metric": metric, "sla": {"e2eMs": 5000}})
    assert document["optimization"] == {"target": target, "constraints": {"max_candidate_gpus": 2}}


def test_without_latency_bounds_nothing_is_evaluated() -> None:
    assert "evaluation" not in lowered()


def test_latency_bounds_become_the_sla() -> None:
    tokens, whole = OBJECTIVES["Goodput-tokens"], OBJECTIVES["GoodputPerGPU-whole"]
    assert lowered(objective=tokens)["evaluation"] == {"sla": {"ttft_ms": 500, "itl_ms": 20.5}}
    assert lowered(objective=whole)["evaluation"] == {"sla": {"e2e_ms": 5000}}


def test_the_budget_becomes_the_optimizer() -> None:
    assert lowered()["optimizer"] == {"max_trials": 320, "parallelism": 16, "seed": 42}
    assert lowered(**EXTRAS["per-round"])["optimizer"] == {"max_trials": 7, "parallelism": 1, "seed": 42}
    timed = lowered(**EXTRAS["budget"])["optimizer"]
    assert timed == {"max_trials": 6, "parallelism": 2, "candidate_timeout_seconds": 120.5, "seed": 42}


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("120s", 120), ("1h", 3600), ("1.5h", 5400), ("2m30s", 150), ("500ms", 0.5), ("1h1m1s1ms", 3661.001)],
)
def test_a_duration_becomes_seconds(duration: str, seconds: float) -> None:
    budget = {"maxRounds": 1, "parallelEvaluations": 1, "maxEvaluationDuration": duration}
    assert lowered(search={"budget": budget})["optimizer"]["candidate_timeout_seconds"] == seconds


def test_one_backend_is_fixed_and_several_are_choices() -> None:
    assert lowered()["engine"]["backend"] == "vllm"
    assert lowered(backends=["sglang", "vllm"])["engine"]["backend"] == {"choices": ["sglang", "vllm"]}


def test_workers_of_both_modes_are_searched_unless_the_overrides_name_a_mode_or_workers() -> None:
    everything = {"aggregated": {}, "prefill": {}, "decode": {}}
    assert lowered()["engine"]["workers"] == everything
    assert lowered(aisimulate={"inputOverrides": {"engine": {"context_length": 1}}})["engine"]["workers"] == everything
    for named in ({"mode": "aggregated"}, {"workers": {"aggregated": {}}}):
        engine = lowered(aisimulate={"inputOverrides": {"engine": named}})["engine"]
        assert engine == {"model": "Qwen/Qwen3-0.6B", "hardware": "h200_sxm", "backend": "vllm"} | named


@pytest.mark.parametrize(
    ("sub_path", "file"),
    [("a.jsonl.gz", "trace.jsonl.gz"), ("a.jsonl", "trace.jsonl"), ("a.gz/b", "trace.jsonl"), ("gz", "trace.jsonl")],
)
def test_the_mounted_file_keeps_the_ending_by_which_it_is_read(sub_path: str, file: str) -> None:
    claim = {"claimName": "request-traces", "subPath": sub_path}
    workload = {"trace": {"source": {"persistentVolumeClaim": claim}}}
    result = lower(request_with(BASE | {"workload": workload}))
    path = f"/var/run/aisimulate/trace/{file}"
    assert result.trace == TraceMount("request-traces", sub_path, path)
    assert result.document["traffic"]["source"]["paths"] == [path]


def test_the_claim_alone_decides_the_mount() -> None:
    gone = lower(request_with(BASE | EXTRAS["trace-replaced"]))
    assert "traffic" not in gone.document
    assert gone.trace is not None
    added = {"traffic": {"source": {"type": "trace", "format": "dynamo", "paths": ["/x"]}, "stop": None}}
    static = lower(request_with(BASE | {"aisimulate": {"inputOverrides": added}}))
    assert static.document["traffic"]["source"]["type"] == "trace"
    assert static.trace is None


@pytest.mark.parametrize(
    ("overrides", "path", "expected"),
    [
        ({"traffic": {"source": {"format": "mooncake"}}}, "source", {"type": "trace", "format": "mooncake"}),
        ({"traffic": {"stop": {"requests": 5}}}, "stop", {"requests": 5}),
        ({"traffic": {"load": None}}, "load", None),
        ({"traffic": "anything"}, "", "anything"),
    ],
)
def test_the_overrides_have_the_last_word(overrides: Json, path: str, expected: Json) -> None:
    traffic = lowered(workload=WORKLOADS["trace"], aisimulate={"inputOverrides": overrides})["traffic"]
    got = traffic.get(path) if path else traffic
    assert got == expected or got == expected | {"paths": ["/var/run/aisimulate/trace/trace.jsonl.gz"]}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["load", "type", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["traffic", "optimizer", "x"]), JSON, max_size=3))
def test_the_input_is_the_typed_fields_merged_with_the_overrides_and_nothing_is_restored(overrides: Json) -> None:
    trace = BASE | {"workload": WORKLOADS["trace-faster"]}
    typed = lower(request_with(trace))
    result = lower(request_with(trace | {"aisimulate": {"inputOverrides": overrides}}))
    assert result.document == canonical(merge_patch(typed.document, overrides))
    assert result.trace == typed.trace


def test_numbers_are_as_an_api_server_returns_them() -> None:
    overrides = {"router": {"temperature": {"choices": [0.0, 0.5, 1.0]}}}
    assert (
        json.dumps(lowered(aisimulate={"inputOverrides": overrides})["router"])
        == '{"temperature": {"choices": [0, 0.5, 1]}}'
    )


def test_a_run_and_a_carrier_are_lowered_as_the_request_is() -> None:
    native = request_with(BASE | {"workload": WORKLOADS["trace"]})
    assert lower(native | {"kind": "DynamoGraphDeploymentRun"}) == lower(native)
    assert lower(to_v1beta1(native)) == lower(native)


@pytest.mark.parametrize("name", FAULTS)
def test_a_request_with_a_fault_has_a_reason_and_no_input(name: str) -> None:
    with pytest.raises(LoweringError) as caught:
        lower(faulty(FAULTS[name]))
    verdict = validate(faulty(FAULTS[name]))
    assert caught.value.reason == FAULTS[name].reason
    if caught.value.reason == "InvalidSpec":
        assert str(verdict.errors[0]) in str(caught.value)
    else:
        assert verdict.errors == ()
        assert str(caught.value) in verdict.warnings


@pytest.mark.parametrize("name", varied_requests())
def test_a_request_with_an_input_has_no_warning_of_one_that_has_none(name: str) -> None:
    assert not {NO_SLA, NO_HARDWARE}.intersection(validate(request_with(varied_requests()[name])).warnings)


def test_a_candidate_has_a_reason_and_no_input() -> None:
    candidate = request_with({"parameters": {"tp": 1}}) | {"kind": "DynamoGraphDeploymentCandidate"}
    with pytest.raises(LoweringError, match="give a Request or a Run") as caught:
        lower(candidate)
    assert caught.value.reason == "KindUnsupported"


def test_a_pareto_search_has_a_reason_and_no_input() -> None:
    with pytest.raises(LoweringError, match="use Optimize") as caught:
        lowered(objective={"mode": "Pareto", "metrics": ["TTFT", "Throughput"]})
    assert caught.value.reason == "ParetoUnsupported"


def test_overrides_that_are_nested_too_deeply_have_a_reason_and_no_input() -> None:
    deep: Json = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    with pytest.raises(LoweringError, match="levels deep") as caught:
        lowered(aisimulate={"inputOverrides": deep})
    assert caught.value.reason == "InvalidSpec"


def test_a_carrier_that_mixes_versions_has_a_reason_and_no_input() -> None:
    mixed = to_v1beta1(request_with(BASE))
    mixed["spec"]["model"] = "x"
    with pytest.raises(LoweringError, match=r"spec\.v1beta2 must be an object") as caught:
        lower(mixed)
    assert caught.value.reason == "InvalidSpec"


@pytest.mark.parametrize("value", [None, [], "x", {}, {"kind": "Pod", "apiVersion": "v1"}, request_with("x")])
def test_anything_else_has_a_reason(value: Json) -> None:
    with pytest.raises(LoweringError):
        lower(value)


def test_aisimulate_was_asked_about_what_requests_are_lowered_to_today() -> None:
    asked = RESULT_DOCUMENT["accepted"] | RESULT_DOCUMENT["refused"]
    today = {name: spec_digest(document) for name, document in (documents() | faulty_documents()).items()}
    explained = RESULT_DOCUMENT["refused here alone"]
    stale = {name for name, digest in today.items() if asked.get(name) != digest and name not in explained}
    assert stale == set(), "ask again: python tests/lowering/check_aisimulate.py PYTHON"
    assert len(RESULT_DOCUMENT["accepted"]) >= 50
    assert len(RESULT_DOCUMENT["refused"]) >= 10
    assert explained == {name: fault.because for name, fault in FAULTS.items() if fault.because}
