"""A first configuration from what is recorded, with a comment at every value that a person must check."""

import json
import os
import re
from pathlib import Path

from dgdr_retune.windows import Inspection

_DRAFT = """\
# Configuration of dgdr-retune, drafted from {segments}:
# {rows:,} requests of {frontends} frontends in {count} segments.
# Every key is described in docs/configuration.md; paths are relative to this file.

name: {name}                      # windows are published as <windows>/<name>/<window end>.jsonl.gz

recording:
  segments: {segments}            # one directory for each frontend pod below it
  windows: ./windows
  interval_seconds: 1200          # length of a window, aligned to the unix epoch
  grace_seconds: 60               # a request counts if it ended by the window's end plus this
  window: last                    # or a window's end, as unix milliseconds or ISO time
  {frontends_key}: [{names}]            # CHECK: who must have recorded; a window that misses one changes nothing
  minimum_rows: 500               # fewer requests are too few to decide on

deployment:
  router:                         # CHECK: the parameters in force now (a frontend's GET /router_policy shows them)
    overlap_score_credit: 1.0
    prefill_load_scale: 1.0
    temperature: 0.0
  engine:                         # CHECK: the engine behind the routers
    backend: vllm
    mode: aggregated
    workers:
      aggregated:
        parallelism:              # replicas is the number of workers
          preset: [{{replicas: 2, tensor: 1, pipeline: 1, attention_data: 1, moe_tensor: 1, moe_expert: 1}}]
        scheduler:
          max_batched_tokens: 8192
          max_sequences: 256
        kv_cache:
          block_size: {block_size}        # tokens, as recorded
          prefix_caching: true
          capacity: {{type: fixed, blocks: 4096}}   # KV blocks of one worker, as it logs them at its start
        timing: {{type: polynomial}}      # Dynamo's mocker; or {{type: fixed, prefill_ms: …, decode_ms: …}}

retune:
  objective: TTFT                 # or E2ELatency, Throughput, Goodput, … (docs/configuration.md)
  sla: {{ttft_ms: 500, itl_ms: 50}}
  min_improvement_percentage: 1.0 # the whole confidence interval must lie above this
  budget_seconds: 120
  # grid: the 108 points of Dynamo's own search, unless given here

output: ./result
"""


def draft_configuration(inspection: Inspection, *, segments: Path, file: Path) -> str:
    """YAML that loads as it is; `segments` is written relative to where `file` will stand."""
    sizes = sorted({size for segment in inspection.segments for size in segment.block_sizes})
    recorded = [pod.pod for pod in inspection.pods if pod.segments]
    return _DRAFT.format(
        name=_quoted(_name(segments)),
        segments=_quoted(os.path.relpath(segments, file.parent)),
        rows=inspection.rows,
        frontends=len(recorded),
        count=len(inspection.segments),
        frontends_key="frontends" if recorded else "# frontends",
        names=", ".join(_quoted(name) for name in recorded),
        block_size=sizes[0] if sizes else 64,
    )


def _name(segments: Path) -> str:
    """The directory's name made a DNS-1123 name: segments are recorded below a directory named for the deployment."""
    name = re.sub(r"[^a-z0-9-]+", "-", segments.resolve().name.lower()).strip("-")[:63].strip("-")
    return name or "deployment"


def _quoted(value: str) -> str:
    """A YAML scalar that is this text whatever it looks like."""
    return json.dumps(value)
