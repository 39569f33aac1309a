"""Names within Kubernetes' limits, for every input, and different ones for different inputs."""

import re
import uuid

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dgdr_retune.api import (
    candidate_id,
    candidate_name,
    canonical,
    claim_finalizer,
    holds_claim,
    is_claim_finalizer,
    label_value,
    planner_request_name,
    run_name,
    spec_digest,
)

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
QUALIFIED = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

PIECES = st.sampled_from(["a", "b-c", "0", ".", "-", "qwen", "-run-1", "A", "_", "ü", "\ud800", "x" * 40, "y" * 200])
TEXTS = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.lists(st.sampled_from(["a", "b0", "c-d", "qwen-w1", "x" * 40, "y" * 63]), min_size=1, max_size=5).map(
    ".".join
)
PARTS = st.integers(0, 200).map(lambda shard: f"s{shard}") | st.sampled_from(["baseline", "probe"])
ANY_PARTS = PARTS | TEXTS
WINDOWS = st.integers(0, 10**13)
UIDS = st.uuids().map(str) | TEXTS
SPECS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.sampled_from([0.5, "x", None]), max_size=3)

PLAIN = settings(deadline=None)


@PLAIN
@given(TEXTS, st.integers(-1, 10**20))
@example("", 1)
@example("a", 10**70)
def test_a_run_has_a_name_that_its_job_can_have(request: str, generation: int) -> None:
    name = run_name(request, generation)
    assert len(name) <= 63
    assert SUBDOMAIN.fullmatch(name)


@PLAIN
@given(NAMES.filter(lambda name: len(name) <= 253), st.integers(1, 10**6))
def test_a_run_is_named_after_its_request_as_far_as_it_fits(request: str, generation: int) -> None:
    name = run_name(request, generation)
    assert name.endswith(f"-run-{generation}")
    if len(request) + len(f"-run-{generation}") <= 63:
        assert name == f"{request}-run-{generation}"
    else:
        assert name[:20] == request[:20]


@PLAIN
@given(st.tuples(NAMES, st.integers(1, 99)), st.tuples(NAMES, st.integers(1, 99)))
@example(("x" * 80, 1), ("x" * 81, 1))
@example(("a-run-1", 1), ("a", 1))
def test_two_runs_have_two_names(one: tuple[str, int], other: tuple[str, int]) -> None:
    assume(one != other)
    assert run_name(*one) != run_name(*other)


@PLAIN
@given(TEXTS, WINDOWS, ANY_PARTS, SPECS)
@example("", 0, "s" * 300, {})
def test_a_planners_request_leaves_room_for_its_runs(dgd: str, window: int, part: str, spec: object) -> None:
    name = planner_request_name(dgd, window, part, spec)
    assert len(name) <= 50
    assert SUBDOMAIN.fullmatch(name)
    assert run_name(name, 99_999_999) == f"{name}-run-99999999"


@PLAIN
@given(NAMES, WINDOWS, PARTS, SPECS)
def test_a_planners_request_has_one_name_for_one_window_and_specification(
    dgd: str, window: int, part: str, spec: dict[str, object]
) -> None:
    name = planner_request_name(dgd, window, part, spec)
    assert planner_request_name(dgd, window, part, dict(reversed(spec.items()))) == name
    others = [(dgd + "x", window, part, spec), (dgd, window + 1, part, spec), (dgd, window, part + "0", spec)]
    assert name not in {planner_request_name(*other) for other in others}
    assert planner_request_name(dgd, window, part, spec | {"d": 1}) != name


def test_a_short_planners_request_says_what_it_is() -> None:
    digest = spec_digest({})[:8]
    assert planner_request_name("qwen", 1790000000000, "s2", {}) == f"qwen-w1790000000000-s2-{digest}"
    long = planner_request_name("a-very-long-deployment-name", 1790000000000, "baseline", {})
    assert re.fullmatch(rf"a-very-l-[0-9a-f]{{8}}-w1790000000000-baseline-{digest}", long)


@PLAIN
@given(TEXTS, UIDS, SPECS)
@example("x" * 300, "", {})
def test_a_candidate_has_a_name_of_a_subdomain(run: str, uid: str, parameters: object) -> None:
    name = candidate_name(run, uid, candidate_id(parameters))
    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)


def test_a_candidate_is_named_as_the_public_publisher_names_it() -> None:
    parameters = {"tp": 1, "replicas": 2}
    assert candidate_id(parameters) == "evaluated-point-59b8080661f3"
    assert candidate_name("qwen-run-1", "uid", "evaluated-point-0") == "qwen-run-1-17b788a7-evaluated-point-0"
    long = candidate_name("x" * 250, "uid", "evaluated-point-0")
    assert re.fullmatch(r"x{213}-[0-9a-f]{12}-17b788a7-evaluated-point-0", long)
    assert len(long) == 253


@PLAIN
@given(SPECS, SPECS)
def test_candidates_are_told_apart_by_their_parameters_alone(one: dict[str, object], other: dict[str, object]) -> None:
    same = canonical(one) == canonical(other)
    assert (candidate_id(one) == candidate_id(other)) is same


@PLAIN
@given(UIDS)
@example("")
@example("x-")
def test_a_finalizer_is_a_qualified_name(uid: str) -> None:
    assert QUALIFIED.fullmatch(claim_finalizer(uid))


@PLAIN
@given(UIDS, UIDS)
@example("x" * 64, "x" * 65)
def test_a_finalizer_says_whose_it_is(uid: str, other: str) -> None:
    finalizer = claim_finalizer(uid)
    assert is_claim_finalizer(finalizer)
    assert holds_claim(finalizer, uid)
    assert holds_claim(finalizer, other) is (uid == other)


@PLAIN
@given(st.uuids())
def test_a_finalizer_shows_the_uid_that_kubernetes_gives(uid: uuid.UUID) -> None:
    assert claim_finalizer(str(uid)) == f"nvidia.com/dgdr-run-{uid}"


@pytest.mark.parametrize("other", ["kubernetes.io/pvc-protection", "nvidia.com/dgdr-run-", "dgdr-run-x", ""])
def test_a_finalizer_of_somebody_else_is_nobodys_run(other: str) -> None:
    assert not is_claim_finalizer(other)


@PLAIN
@given(TEXTS, TEXTS)
@example("x" * 64, "x" * 65)
def test_a_labels_value_is_allowed_and_of_one_text(one: str, other: str) -> None:
    value = label_value(one)
    assert len(value) <= 63
    assert LABEL.fullmatch(value)
    assert (value == label_value(other)) is (one == other)


def test_a_text_that_fits_is_its_own_labels_value() -> None:
    assert label_value("a" * 63) == "a" * 63
    assert label_value("Qwen_3.0-x") == "Qwen_3.0-x"


def test_a_digest_depends_on_the_value_and_not_on_how_it_is_written() -> None:
    assert spec_digest({"a": 1, "b": [2.0]}) == spec_digest({"b": [2], "a": 1.0})
    assert spec_digest({"a": 1}) != spec_digest({"a": True})
    assert spec_digest({"a": 1}) != spec_digest({"a": "1"})
    assert re.fullmatch(r"[0-9a-f]{32}", spec_digest(None))
