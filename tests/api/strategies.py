"""Objects that an API server accepts, as it returns them."""

from typing import Any

from hypothesis import strategies as st

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any

INT32 = st.integers(1, 2**31 - 1)
POSITIVE = st.integers(1, 10**9) | st.sampled_from([1e-9, 0.5, 2.25, 999999999.5])
WORD = st.sampled_from(["a", "0", "a-b", "qwen-run-1", "a" * 63])
TEXT = st.sampled_from(["", "a", "A b", "é", "\U0001f600", "\0", "dynamo.router", "1"])
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | POSITIVE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
FREE_OBJECTS = st.dictionaries(TEXT, FREE, max_size=3)
TIMES = st.sampled_from(["2026-10-01T12:00:00Z", "2026-10-01T12:00:00.5+02:00"])


def _object(
    required: dict[str, st.SearchStrategy[Json]], **optional: st.SearchStrategy[Json]
) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(required, optional=optional)


def _one(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(*(st.fixed_dictionaries({name: field}) for name, field in fields.items()))


STATIC = st.builds(
    lambda shape, load: shape | load,
    _object({"isl": INT32, "osl": INT32}, numRequestRatio=st.integers(1, 9) | st.just(1.5)),
    _one(requestRate=POSITIVE, concurrency=INT32, kvLoadRatio=st.lists(POSITIVE, min_size=1, max_size=1)),
)
CLAIM = st.fixed_dictionaries(
    {"claimName": WORD, "subPath": st.lists(WORD | st.sampled_from(["...", ".a", "é"]), min_size=1).map("/".join)}
)
TRACE = _object(
    {"format": st.just("Dynamo"), "source": st.fixed_dictionaries({"persistentVolumeClaim": CLAIM})},
    replay=_object({}, arrivalSpeedupRatio=POSITIVE),
)
METRICS = ["Throughput", "ThroughputPerGPU", "ThroughputPerUser", "TTFT", "E2ELatency", "Goodput", "GoodputPerGPU"]
SLA = _one(e2eMs=POSITIVE) | st.fixed_dictionaries({"ttftMs": POSITIVE, "itlMs": POSITIVE})
OBJECTIVE = _object({"mode": st.just("Optimize"), "metric": st.sampled_from(METRICS)}, sla=SLA) | _object(
    {"mode": st.just("Pareto")}, metrics=st.lists(st.sampled_from(METRICS), min_size=2, unique=True), sla=SLA
)
BUDGET = _object(
    {"maxRounds": INT32, "parallelEvaluations": INT32},
    candidatesPerRound=INT32,
    maxEvaluationDuration=st.sampled_from(["120s", "1h30m", "0.5s", "99999h"]),
)
SPECS = st.fixed_dictionaries(
    {
        "modelRef": _object({"name": TEXT.filter(bool)}, revision=TEXT),
        "backends": st.lists(st.sampled_from(["vllm", "sglang", "trtllm"]), min_size=1, unique=True),
        "hardware": st.fixed_dictionaries({"gpu": st.fixed_dictionaries({"sku": WORD, "budget": INT32})}),
        "workload": st.fixed_dictionaries({"static": STATIC}) | st.fixed_dictionaries({"trace": TRACE}),
        "objective": OBJECTIVE,
        "search": st.fixed_dictionaries({"budget": BUDGET}),
        "recommendation": st.fixed_dictionaries({"maxCandidates": st.integers(1, 100)}),
        "aisimulate": _object({"generator": st.sampled_from(["aic", "direct"])}, inputOverrides=FREE_OBJECTS),
    },
    optional={"image": WORD},
)
REFERENCES = st.lists(st.fixed_dictionaries({"name": WORD}), max_size=3)
CONDITIONS = st.lists(
    _object(
        {
            "type": st.sampled_from(["Accepted", "Completed", "a.b/Other"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": st.sampled_from(["RunCreated", "A_1"]),
            "message": TEXT,
            "lastTransitionTime": TIMES,
        },
        observedGeneration=st.integers(0, 2**53 - 1),
    ),
    unique_by=lambda condition: condition["type"],
)
TOTAL = st.integers(0, 2**31 - 1)
STATUSES = {
    REQUEST.name: _object(
        {},
        observedGeneration=st.integers(0, 2**53 - 1),
        activeRunRef=st.fixed_dictionaries({"name": WORD}),
        recentRunRefs=REFERENCES,
        conditions=CONDITIONS,
    ),
    RUN.name: _object(
        {},
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        jobRef=_object({"name": WORD}, uid=WORD),
        aisimulate=_object({}, input=FREE_OBJECTS),
        progress=_object({}, round=TOTAL, evaluated=TOTAL, candidates=_object({}, published=TOTAL)),
        message=TEXT,
        candidateRefs=REFERENCES,
        startTime=TIMES,
        conditions=CONDITIONS,
    ),
    CANDIDATE.name: _object({}, metrics=FREE_OBJECTS, conditions=CONDITIONS),
}
DEPLOYMENTS = _object(
    {"parameters": FREE_OBJECTS},
    backendFramework=st.sampled_from(["vllm", "sglang", "trtllm"]),
    components=st.lists(FREE_OBJECTS, max_size=3),
    annotations=st.dictionaries(WORD, TEXT, max_size=2),
    undeclared=FREE,
)
METADATA = _object(
    {"name": WORD, "namespace": WORD, "uid": WORD, "resourceVersion": WORD, "generation": st.integers(1, 9)},
    labels=st.dictionaries(WORD, WORD, max_size=2),
    managedFields=st.just([{"manager": "x", "fieldsV1": {"f:spec": {}}}]),
    ownerReferences=st.just([{"apiVersion": "a/v1", "kind": "B", "name": "c", "uid": "d", "controller": True}]),
)


def objects(kind: Kind) -> st.SearchStrategy[Json]:
    """Objects of the kind as a server with our CRDs returns them."""
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("nvidia.com/v1beta2"),
            "kind": st.just(kind.name),
            "metadata": METADATA,
            "spec": DEPLOYMENTS if kind == CANDIDATE else SPECS,
        },
        optional={"status": STATUSES[kind.name]},
    )
