"""What a thousand Requests on one claim cost the operator, and what ten thousand Runs weigh in its caches.

The operator is the real one, with its elector, Events and three controllers; the cluster is simulated, in the same
process and on virtual time: a Job takes a minute there, and none here. Peer in the same run: a script that creates the
same Requests, Runs and Jobs bare, three calls each, in the same simulated cluster, and watches and protects nothing.
Each runs in a process of its own. This is not called `operator.py`: Python would take that for its own module.

    python benchmarks/operator_load.py [--requests N] [--runs N] [--repeats N] [--json FILE]
"""

import argparse
import asyncio
import copy
import gc
import json
import logging
import os
import platform
import random
import resource
import subprocess
import sys
import time
import tracemalloc
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
from attrs import define, field

from dgdr_retune import __version__
from dgdr_retune.controllers import Configuration, Controllers, publisher_account, run_job
from dgdr_retune.controllers._caches import run_indexes
from dgdr_retune.controllers._projections import kept_run
from dgdr_retune.kube import Answer, Api, Cache, Call, EventRecorder, Stream
from dgdr_retune.kube._api import PAGE_SIZE, Listing
from dgdr_retune.lowering import lower
from dgdr_retune.operator import Operator, Settings
from dgdr_retune.testing import SimulatedTransport, VirtualLoop
from dgdr_retune.testing._part import CLAIMS, JOBS, REQUESTS, RUNS, SERVICE_ACCOUNTS
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._world import NAMESPACE, OPERATOR_NAMESPACE, World

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "trace_request_lowering.golden.json"
SPEC: Final = json.loads(GOLDEN.read_text())["request"]["spec"]
CLAIM: Final = SPEC["workload"]["trace"]["source"]["persistentVolumeClaim"]["claimName"]
IMAGES: Final[dict[str, Any]] = {
    "sweeper_image": "registry.example/dgdr-retune:0.1.0",
    "publisher_image": "registry.example/dgdr-retune:0.1.0",
    "runtime_image": "registry.example/vllm-runtime:1.6.1",
}
VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
JOBS_AT_A_TIME: Final = 100
LOOK_EVERY_S: Final = 5.0
UNTIL_S: Final = 100_000.0


@define
class Counted:
    """A transport that counts calls by verb and resource."""

    inner: SimulatedTransport
    calls: Counter[str] = field(factory=Counter)

    async def send(self, call: Call) -> Answer:
        """Pass a call on."""
        self.calls[asked(call)] += 1
        return await self.inner.send(call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        """Pass a watch on."""
        self.calls[asked(call)] += 1
        return self.inner.stream(call)


def asked(call: Call) -> str:
    """Verb and resource, as RBAC names them."""
    parts = call.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    match rest:
        case ["namespaces", _, _, *_]:
            rest = rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    verb = VERBS[call.method]
    if verb == "get" and not name:
        verb = "watch" if call.query.get("watch") else "list"
    return f"{verb} {plural}/{subresource}" if subresource else f"{verb} {plural}"


def cluster(loop: VirtualLoop) -> World:
    """A simulated cluster with the claim."""
    world = World(loop, seed=1)
    people = world.access("people")
    spec = {"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem"}
    people.create(CLAIMS, NAMESPACE, {"metadata": {"name": CLAIM}, "spec": spec})
    people.patch(Key(CLAIMS, NAMESPACE, CLAIM), {"status": {"phase": "Bound"}}, "status")
    return world


def request(world: World, number: int) -> dict[str, Any]:
    return dict(
        world.access("people").create(REQUESTS, NAMESPACE, {"metadata": {"name": f"q{number:04}"}, "spec": SPEC})
    )


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the server has no event for it, and time is virtual
        await asyncio.sleep(LOOK_EVERY_S)


def serve_with_operator(count: int) -> dict[str, Any]:
    """From the first Request created to the last Run done and the claim let go."""
    with VirtualLoop() as loop:
        world = cluster(loop)
        people = world.access("people")
        transport = Counted(SimulatedTransport(world.server))
        told = {"operator_namespace": OPERATOR_NAMESPACE, "http_port": None, "identity": "benchmark", **IMAGES}
        settings = Settings.model_validate({**told, "jobs_per_namespace": JOBS_AT_A_TIME})

        def is_over() -> bool:
            runs = list(people.all(RUNS, NAMESPACE))
            done = sum(run.get("status", {}).get("phase") == "Succeeded" for run in runs)
            finalizers = people.get(Key(CLAIMS, NAMESPACE, CLAIM))["metadata"]["finalizers"]
            return done == count and not any("dgdr-run" in each for each in finalizers)

        async def main() -> None:
            operator = Operator(settings, transport, now=loop.now, rng=random.Random(1))  # noqa: S311 - jitter
            running = asyncio.create_task(operator.run())
            await until(lambda: operator.is_leader and not operator.why_not_ready())
            for number in range(count):
                request(world, number)
            await until(is_over)
            running.cancel()
            await asyncio.wait([running])

        loop.run(main(), until_s=UNTIL_S)
        return {"calls": dict(sorted(transport.calls.items())), "virtual_s": loop.time()}


def create_bare(count: int) -> dict[str, Any]:
    """The same objects without an operator, to the last Job's end."""
    with VirtualLoop() as loop:
        world = cluster(loop)
        people = world.access("people")

        configuration = Configuration(**IMAGES)

        async def main() -> None:
            people.create(SERVICE_ACCOUNTS, NAMESPACE, publisher_account(NAMESPACE, configuration))
            for number in range(count):
                owner = request(world, number)
                run = people.create(RUNS, NAMESPACE, bare_run(owner))
                people.create(JOBS, NAMESPACE, run_job(run, lower(run), configuration))
            await until(lambda: all(map(is_complete, people.all(JOBS, NAMESPACE))))

        loop.run(main(), until_s=UNTIL_S)
        return {"calls": {f"create {what}": count for what in ("requests", "runs", "jobs")}, "virtual_s": loop.time()}


def is_complete(job: dict[str, Any]) -> bool:
    return any(each["type"] == "Complete" for each in job.get("status", {}).get("conditions", ()))


def bare_run(owner: dict[str, Any]) -> dict[str, Any]:
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {
        "metadata": {
            "name": f"{metadata['name']}-run-1",
            "ownerReferences": [{**reference, "uid": metadata["uid"], "controller": True}],
        },
        "spec": owner["spec"],
    }


def weigh_caches(count: int) -> dict[str, Any]:
    """What the cache holds of Runs that are done, and of Runs that are not: copies of a real one, listed in pages."""
    with VirtualLoop() as loop:
        world = cluster(loop)
        open_run, done_run = (
            loop.run(run_in(loop, world, phase), until_s=UNTIL_S) for phase in ("Running", "Succeeded")
        )
    held = {name: weigh(run, count) / count for name, run in (("open", open_run), ("done", done_run))}
    return {"runs": count, "bytes_a_done_run": held["done"], "bytes_an_open_run": held["open"]}


async def run_in(loop: VirtualLoop, world: World, phase: str) -> dict[str, Any]:
    """A Run of a Request of its own, once it has come to a phase."""
    rng = random.Random(1)  # noqa: S311 - jitter
    api = Api(SimulatedTransport(world.server), rng=rng)
    events = EventRecorder(api, component="benchmark", now=loop.now, rng=rng)
    controllers = Controllers(api, Configuration(**IMAGES), now=loop.now, rng=rng, events=events)
    running = asyncio.create_task(controllers.run())
    name = request(world, len(phase))["metadata"]["name"]
    key = Key(RUNS, NAMESPACE, f"{name}-run-1")
    people = world.access("people")
    await until(lambda: ((people.get(key) or {}).get("status") or {}).get("phase") == phase)
    running.cancel()
    await asyncio.wait([running])
    return copy.deepcopy(people.get(key))


def weigh(run: dict[str, Any], count: int) -> int:
    """Bytes that a cache of so many copies of a Run holds."""
    cache = Cache(kept_run, run_indexes())
    tracemalloc.start()
    items: list[dict[str, Any]] = []
    for first in range(0, count, PAGE_SIZE):
        page = [copied(run, number) for number in range(first, min(first + PAGE_SIZE, count))]
        items += json.loads(json.dumps(page))
    cache.listed(Listing(tuple(items), str(count + 1)))
    del items, page
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def copied(run: dict[str, Any], number: int) -> dict[str, Any]:
    own = {"name": f"copy-{number:05}-run-1", "uid": str(uuid.UUID(int=number)), "resourceVersion": str(number + 1)}
    return {**run, "metadata": {**run["metadata"], **own}}


TASKS: Final = {"operator": serve_with_operator, "bare": create_bare, "caches": weigh_caches}


def measure(task: str, count: int) -> dict[str, Any]:
    """Run one task in this process."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    started, began = time.perf_counter(), time.process_time()
    result = TASKS[task](count)
    return {
        **result,
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - began,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_in_child(task: str, count: int) -> dict[str, Any]:
    order = [sys.executable, __file__, "--task", task, "--count", str(count)]
    child = subprocess.run(order, capture_output=True, check=False)
    if child.returncode != 0:
        raise SystemExit(f"{task} ended with {child.returncode}: {child.stderr.decode()[-2000:]}")
    return dict(json.loads(child.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3, help="of both programs, interleaved; the best counts")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(measure(options.task, options.count)))
        return
    pairs = [
        {task: measure_in_child(task, options.requests) for task in ("operator", "bare")}
        for _ in range(options.repeats)
    ]
    best = {
        task: min((pair[task] for pair in pairs), key=lambda run: run["processor_seconds"])
        for task in ("operator", "bare")
    }
    caches = measure_in_child("caches", options.runs)
    result = {
        "version": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)),
        "requests": options.requests,
        "jobs_at_a_time": JOBS_AT_A_TIME,
        **best,
        "times_the_bare_processor_time": best["operator"]["processor_seconds"] / best["bare"]["processor_seconds"],
        "caches": {name: caches[name] for name in ("runs", "bytes_a_done_run", "bytes_an_open_run")},
    }
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def table(result: dict[str, Any]) -> str:
    count = result["requests"]
    calls = Counter(result["operator"]["calls"])
    lines = [
        "{requests} Requests on one claim, version {version}, {processors} processors, Python {python}".format(
            **result
        ),
        f"{'':12}{'wall':>10}{'processor':>12}{'peak memory':>14}",
    ]
    for task in ("operator", "bare"):
        run = result[task]
        lines.append(
            f"{task:12}{run['seconds']:8.1f} s{run['processor_seconds']:10.1f} s{run['peak_bytes'] / 1e6:11.0f} MB"
        )
    lines.append(
        f"{result['times_the_bare_processor_time']:.1f} times the processor time of the bare objects;"
        f" {calls.total() / count:.1f} calls a Request:"
    )
    lines.extend(f"  {what:<45}{number:8}{number / count:9.2f} a Request" for what, number in calls.items())
    weights = result["caches"]
    lines.append(
        f"{weights['runs']} Runs in the caches: {weights['bytes_a_done_run']:.0f} bytes a Run that is done,"
        f" {weights['bytes_an_open_run']:.0f} bytes a Run that is not"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
