import numpy as np
import pytest
from attrs import evolve

from dgdr_retune.replay import (
    EngineSpecification,
    Metrics,
    PolynomialTiming,
    RequestTimes,
    RouterParameters,
    Scenario,
    Sla,
    Trace,
    WorkerSpecification,
)
from dgdr_retune.report import RetuneRecord, build_page, render
from dgdr_retune.report._page import MAX_BYTES
from dgdr_retune.report._plots import IntervalRow
from dgdr_retune.sweep import (
    Candidate,
    CandidateResult,
    Demands,
    Failure,
    GridSection,
    Objective,
    Replication,
    Rules,
    Sweep,
    decide,
    failed,
    no_traffic,
    rank,
)
from dgdr_retune.windows import Completeness, Counts, Cut, Gap, Window
from hostile import HOSTILE, tags

WINDOW = Window(start_ms=0, end_ms=1_200_000, cutoff_ms=1_260_000)
BASELINE = RouterParameters()
COMPLETENESS = Completeness(
    rows=1000,
    frontends=2,
    fingerprints=("aaaa", "bbbb"),
    gap_count=1,
    gap_ms=20_000,
    gaps=(Gap("frontend-0", 30_000, 50_000),),
    names=("frontend-0", "frontend-1"),
)
SCENARIO = Scenario(
    EngineSpecification(
        backend="vllm",
        mode="aggregated",
        aggregated=WorkerSpecification(
            replicas=2,
            gpus_per_worker=1,
            max_batched_tokens=8192,
            max_sequences=64,
            block_size=64,
            blocks=1000,
            prefix_caching=True,
            timing=PolynomialTiming(),
        ),
    ),
    sla=Sla(ttft_ms=100),
)


def sweep(grid: GridSection | None = None) -> Sweep:
    expanded = (grid or GridSection()).expand(BASELINE)
    random = np.random.default_rng(1)

    def replications(mean: float) -> tuple[Replication, ...]:
        scores = mean + random.normal(size=8)
        return tuple(Replication(Metrics({"mean_ttft_ms": float(score)}), float(score), 0.1) for score in scores)

    results = tuple(
        CandidateResult(Candidate(router, at), replications(100 + 10 * router.temperature))
        for at, router in enumerate(expanded.points)
    )
    return Sweep(
        grid=expanded,
        results=results,
        baseline=expanded.points.index(BASELINE),
        scenario=SCENARIO,
        objective=Objective.TTFT,
        rules=Rules(),
        engine="double",
        paired=True,
        budget_s=10,
        elapsed_s=1,
        exhausted=False,
    )


def record() -> RetuneRecord:
    scores = sweep()
    times = RequestTimes(*(np.arange(1.0, 1001.0) for _ in range(3)))
    return RetuneRecord(
        name="chat",
        decision=decide(scores, COMPLETENESS, Demands(minimum_rows=500)),
        window=WINDOW,
        cut=Cut(
            outcome="published",
            path="windows/chat/1200000.jsonl.gz",
            sha256="0" * 64,
            counts=Counts(rows=1000),
            completeness=COMPLETENESS,
            malformed={"no_request_id": 3},
        ),
        trace=Trace(
            block_size=64,
            arrival_ms=np.arange(1000, dtype=np.int64) * 1000,
            input_length=np.full(1000, 10, np.int32),
            output_length=np.full(1000, 10, np.int32),
            hash_start=np.arange(1001, dtype=np.int64),
            hashes=np.arange(1000, dtype=np.uint64),
        ),
        sweep=scores,
        baseline_times=times,
        best_times=times,
    )


def test_the_report_shows_what_the_decision_rests_on() -> None:
    html = render(build_page(record()))
    for title in ("Router parameters", "Is it better?", "What each knob does", "Latencies", "The window"):
        assert f"<h2>{title}</h2>" in html
    # intervals; 3 heat maps and 3 effects; 3 latencies; arrivals
    assert html.count("data:image/svg+xml") == 1 + 6 + 3 + 1
    assert "refused: no_request_id" in html
    assert "frontend-0, frontend-1" in html


def test_the_report_of_the_largest_grid_is_at_most_two_megabytes() -> None:
    large = GridSection.model_validate(
        {name: {"choices": list(range(10))} for name in ("overlap_score_credit", "prefill_load_scale", "temperature")}
    )
    scores = sweep(large)
    decision = decide(scores, COMPLETENESS, Demands())
    gaps = tuple(Gap(f"frontend-{at}", 0, 20_000) for at in range(1000))
    full = evolve(record(), sweep=scores, decision=decision)
    full = evolve(full, cut=evolve(full.cut, completeness=evolve(COMPLETENESS, gaps=gaps)))
    assert len(render(build_page(full)).encode()) <= MAX_BYTES


def test_hostile_names_and_messages_from_data_add_no_tag() -> None:
    harmless = record()

    def hostile(text: str) -> RetuneRecord:
        completeness = evolve(COMPLETENESS, names=(text,), gaps=(Gap(text, 30_000, 50_000),))
        cut = evolve(harmless.cut, completeness=completeness, malformed={text: 1})
        results = list(harmless.sweep.results)
        results[0] = evolve(results[0], failure=Failure(text, text))
        scores = evolve(harmless.sweep, results=tuple(results))
        decision = decide(scores, completeness, Demands(frontends=(text,)))
        return evolve(harmless, name=text, cut=cut, sweep=scores, decision=decision)

    expected = [(tag, set(attributes)) for tag, attributes in tags(render(build_page(hostile("harmless"))))]
    for text in HOSTILE:
        html = render(build_page(hostile(text)))
        assert [(tag, set(attributes)) for tag, attributes in tags(html)] == expected
        assert "\x1b" not in html
        assert "\u202e" not in html


@pytest.mark.parametrize("window", [None, WINDOW])
def test_a_retune_without_a_sweep_has_a_report_too(window: Window | None) -> None:
    common = {"objective": Objective.TTFT, "rules": Rules(), "demands": Demands()}
    failure = failed(Failure("trace_corrupt", "most of it is damaged"), BASELINE, **common)
    html = render(build_page(RetuneRecord(name="chat", decision=failure, window=window)))
    assert "most of it is damaged" in html
    html = render(build_page(RetuneRecord(name="chat", decision=no_traffic(BASELINE, **common), window=window)))
    assert "no_traffic" in html


def test_the_interval_that_stands_out_is_the_decisions_best(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[IntervalRow] = []

    def draw(rows: list[IntervalRow], **_: object) -> str:
        drawn.extend(rows)
        return "<svg/>"

    monkeypatch.setattr("dgdr_retune.report._build.intervals", draw)
    made = record()
    second = rank(made.sweep)[1]
    build_page(evolve(made, decision=evolve(made.decision, best=second)))
    assert [row.best for row in drawn[:3]] == [False, True, False]
