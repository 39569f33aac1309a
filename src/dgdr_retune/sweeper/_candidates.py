"""A point of the grid as the candidate that AISimulate would resolve it to, and what its replays say of it."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any, Final

from attrs import frozen

from dgdr_retune.api import candidate_id, canonical, canonical_json
from dgdr_retune.replay import EngineSection, Metrics, RouterParameters, WorkerSection
from dgdr_retune.sweep import Objective
from dgdr_retune.sweeper._input import Json, OutputSection
from dgdr_retune.sweeper._render import render
from dgdr_retune.sweeper._router_grid import RouterGrid
from dgdr_retune.sweeper._yaml import dump

METRICS: Final = (
    "completed_requests",
    "num_ttft_samples",
    "num_tpot_samples",
    "num_e2e_latency_samples",
    "output_throughput_tok_s",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_e2e_latency_ms",
    "mean_output_token_throughput_per_user",
    "goodput_output_throughput_tok_s",
    "request_throughput_rps",
    "goodput_request_throughput_rps",
    "goodput_completed_requests",
    "gpu_hours",
    "duration_ms",
)
"""What is published of a replay: AISimulate's names, from which every goal can be scored again."""


@frozen
class Point:
    """A candidate before its replays.

    Attributes:
        router: what is replayed.
        parameters: the candidate's resolved configuration in AISimulate's names.
        used_gpus: of all workers.
        manifest: its DynamoGraphDeployment as YAML.
    """

    router: RouterParameters
    parameters: Mapping[str, Json]
    used_gpus: int
    manifest: str

    @property
    def id(self) -> str:
        """Depends on the parameters alone."""
        return candidate_id(self.parameters)


@frozen
class Candidate:
    """A candidate after its replays.

    Attributes:
        score: mean over the replications; higher is better, a minimised goal is negated; may be infinite.
        rank: candidates in ascending order of this are best first; ties are broken by the parameters alone.
        text: its entry in the snapshot, as YAML.
    """

    score: float
    rank: tuple[float, int, str]
    text: str


def points(grid: RouterGrid, output: OutputSection) -> tuple[Point, ...]:
    """The candidates of a grid, rendered.

    Errors: `RenderError`; `InputError` as `RouterGrid.engine_section`.
    """
    engine = grid.engine_section()
    found = []
    for router in grid.points():
        parameters = canonical(_parameters(grid, engine, router))
        manifest = render(parameters, output, candidate=candidate_id(parameters))
        found.append(Point(router, parameters, parameters["used_gpus"], manifest))
    return tuple(found)


def scored(point: Point, replications: Sequence[Metrics], objective: Objective) -> Candidate:
    """A candidate with all its replications.

    Raises:
        MetricMissingError: as `Objective.score`.
    """
    sign = -1.0 if objective.minimised else 1.0
    score = fsum(sign * objective.score(metrics) for metrics in replications) / len(replications)
    published = [_published(metrics) for metrics in replications]
    entry = {
        "id": point.id,
        "outcome": "materialized",
        "parameters": point.parameters,
        "metrics": canonical(
            {
                "score": score if isfinite(score) else None,
                "usedGpus": point.used_gpus,
                **_means(published),
                "replications": published,
            }
        ),
        "manifest": point.manifest,
    }
    return Candidate(score, (-score, point.used_gpus, canonical_json(point.parameters)), dump([entry]))


def _published(metrics: Metrics) -> dict[str, float]:
    values = {name: metrics.get(name) for name in METRICS}
    return {name: value for name, value in values.items() if value is not None and isfinite(value)}


def _means(replications: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of the metrics that every replication has: a mean over some of them is another number."""
    names = [name for name in METRICS if all(name in metrics for metrics in replications)]
    return {name: fsum(metrics[name] for metrics in replications) / len(replications) for name in names}


def _parameters(grid: RouterGrid, engine: EngineSection, router: RouterParameters) -> dict[str, Any]:
    constraints = grid.optimization.constraints
    found = {
        "deployment_mode": "agg" if engine.mode == "aggregated" else "disagg",
        "backend": engine.backend,
        "backend_version": engine.backend_version,
        "model_name": engine.model,
        "hardware_sku": engine.hardware,
        "gpu_budget": constraints.max_candidate_gpus,
        "min_gpu_budget": constraints.min_candidate_gpus,
        "context_length": engine.context_length,
        "used_gpus": sum(_gpus(worker) for worker in engine.pools.values()),
    }
    for role, worker in engine.pools.items():
        found |= _pool(
            "" if role == "aggregated" else f"{role}_", "agg_" if role == "aggregated" else f"{role}_", worker
        )
    adapter = {
        "policy": grid.router.policy,
        "prefill_load_model": {"type": grid.router.prefill_load_model.type},
        "overlap_score_credit": router.overlap_score_credit,
        "prefill_load_scale": router.prefill_load_scale,
        "temperature": router.temperature,
    }
    return {
        **{name: value for name, value in found.items() if value is not None},
        "adapters": {"dynamo.router": adapter},
    }


def _gpus(worker: WorkerSection) -> int:
    layout = worker.parallelism.preset[0]
    return layout.replicas * layout.tensor * layout.pipeline * layout.attention_data


def _pool(layout_prefix: str, prefix: str, worker: WorkerSection) -> dict[str, Any]:
    """One pool of workers; AISimulate gives an aggregated one's layout no prefix."""
    layout = worker.parallelism.preset[0]
    layout_parameters = {
        "tp": layout.tensor,
        "pp": layout.pipeline,
        "attention_dp": layout.attention_data,
        "moe_tp": layout.moe_tensor,
        "moe_ep": layout.moe_expert,
        "strategy": _strategy(layout.tensor, layout.attention_data, layout.moe_tensor, layout.moe_expert),
        "replicas": layout.replicas,
    }
    parameters = {
        "max_num_batched_tokens": worker.scheduler.max_batched_tokens,
        "max_num_seqs": worker.scheduler.max_sequences,
        "block_size": worker.kv_cache.block_size,
        "enable_prefix_caching": worker.kv_cache.prefix_caching,
        "num_gpu_blocks": worker.kv_cache.capacity.blocks,
        "timing_model": worker.timing.model_dump(exclude_none=True),
    }
    return {f"{layout_prefix}{name}": value for name, value in layout_parameters.items()} | {
        f"{prefix}{name}": value for name, value in parameters.items()
    }


def _strategy(tensor: int, attention_data: int, moe_tensor: int, moe_expert: int) -> str | None:
    """AISimulate's name of a layout; None for one that it has none for."""
    match tensor > 1, attention_data > 1, moe_tensor > 1, moe_expert > 1:
        case (_, _, False, False) | (True, False, True, False):
            return "tp"
        case True, False, False, True:
            return "tep"
        case False, True, False, True:
            return "dep"
    return None
