"""What the benchmarks replay: windows of the recorded traffic, and the deployment that it is replayed on."""

from collections.abc import Iterable
from pathlib import Path

from dgdr_retune.replay import EngineSpecification, PolynomialTiming, Sla, Trace, WorkerSpecification, load_trace
from dgdr_retune.windows import Completeness, CutRequest, Place, Window, cut

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "recorded"
SEGMENTS = sorted(RECORDED.glob("*/*.gz"))
LEFT_OUT = RECORDED / "frontend-1" / "trace.000003.jsonl.gz"  # as in the oracle's table
WINDOW = Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000)
WORKERS = WorkerSpecification(
    replicas=4,
    gpus_per_worker=1,
    max_batched_tokens=8192,
    max_sequences=64,
    block_size=64,
    blocks=1200,
    prefix_caching=True,
    timing=PolynomialTiming(),
)
SPECIFICATION = EngineSpecification("vllm", "aggregated", WORKERS)
SPEEDUP = 2.0
SLA = Sla(ttft_ms=200.0, itl_ms=50.0)


def cut_recorded(scratch: Path, segments: Iterable[Path]) -> tuple[Path, Completeness]:
    """Cut the window from these segments alone; its file, below `scratch`, and how complete it is."""
    copies, windows = scratch / "segments", scratch / "windows"
    windows.mkdir(parents=True)
    for path in segments:
        target = copies / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    published = cut(CutRequest(segments=Place(str(copies)), windows=Place(str(windows)), name="chat", window=WINDOW))
    if published.path is None:
        raise SystemExit(f"the recorded window was not cut: {published.outcome}")
    return Path(published.path), published.completeness


def cut_oracle_window(scratch: Path) -> tuple[Path, Completeness]:
    """The window of 8,006 rows that the oracle's table is about."""
    return cut_recorded(scratch, [path for path in SEGMENTS if path != LEFT_OUT])


def recorded_window(scratch: Path) -> tuple[Trace, Completeness]:
    """The same window as requests to replay."""
    path, completeness = cut_oracle_window(scratch)
    return load_trace(path), completeness
