"""What an operator is told once, for all Runs."""

from typing import Final

from attrs import frozen

SNAPSHOT_DIRECTORY: Final = "/var/run/dgdr-run"
"""Where a Run's sweeper leaves its snapshots and its publisher finds them."""

SWEEPER_COMMAND: Final = ("python", "-m", "dgdr_retune.sweeper", "--snapshot-dir", SNAPSHOT_DIRECTORY)
"""Our sweeper, on its built-in engine."""

_WRITE_INPUT_AND_BECOME: Final = (
    "import os, pathlib, sys;"
    ' pathlib.Path(sys.argv[1]).write_text(os.environ["DGDR_RETUNE_INPUT"]);'
    " os.execvp(sys.argv[2], sys.argv[2:])"
)
_INPUT: Final = "/tmp/input.yaml"  # noqa: S108 - in a volume of the container's own
_OUTPUT: Final = "/tmp/output"  # noqa: S108 - as above

AISIMULATE_COMMAND: Final = (
    *("python3", "-c", _WRITE_INPUT_AND_BECOME, _INPUT),
    *("aisimulate", "recommend", "--stack", "dynamo", "--config", _INPUT),
    *("--output", "dgdr_run", "--output-dir", _OUTPUT),
)
"""The sweeper of Dynamo's planner image. It reads its input from a file, and JSON is YAML."""

PUBLISHER_COMMAND: Final = ("python", "-m", "dgdr_retune.publisher")
"""Our publisher; what it publishes is said by the operator."""


@frozen
class Resources:
    """What a container asks for and may use, as Kubernetes' quantities."""

    cpu_request: str
    cpu_limit: str
    memory_request: str
    memory_limit: str


@frozen(kw_only=True)
class Configuration:
    """What the controllers need to know.

    Attributes:
        sweeper_image: image of a Run's sweeper where the Request names none.
        publisher_image: image of a Run's publisher.
        runtime_image: image of the deployments that Candidates describe; its tag is a version such as 1.6.1.
        sweeper_command: command and arguments of the sweeper. Kubernetes expands `$(NAME)` in them; the input is in
            `DGDR_RETUNE_INPUT`, the number of replications, where one is asked for, in `DGDR_RETUNE_REPLICATIONS`.
        publisher_command: command of the publisher, without what is to be published.
        num_gpus_per_node: GPUs of one node that a Candidate may be rendered for.
        snapshot_interval_s: the sweeper leaves a snapshot at most this often, seconds.
        sweeper_resources: of the container that evaluates.
        publisher_resources: of the container that publishes.
        publisher_account: ServiceAccount of Run Jobs, created where it is missing; also the name of its RoleBinding.
        publisher_role: ClusterRole that the ServiceAccount is bound to.
        history_limit: Runs that are done and kept, per Request.
        start_deadline_s: a Run whose containers have not started this long after its Job was created fails; None
            waits for ever.
        jobs_per_namespace: most unfinished Run Jobs in one namespace.
        workers: objects of one kind that are worked on at the same time.
    """

    sweeper_image: str
    publisher_image: str
    runtime_image: str
    sweeper_command: tuple[str, ...] = SWEEPER_COMMAND
    publisher_command: tuple[str, ...] = PUBLISHER_COMMAND
    num_gpus_per_node: int = 8
    snapshot_interval_s: float = 5.0
    sweeper_resources: Resources = Resources(cpu_request="1", cpu_limit="4", memory_request="2Gi", memory_limit="8Gi")
    publisher_resources: Resources = Resources(
        cpu_request="50m", cpu_limit="500m", memory_request="128Mi", memory_limit="256Mi"
    )
    publisher_account: str = "dgdr-retune-publisher"
    publisher_role: str = "dgdr-retune-publisher"
    history_limit: int = 10
    start_deadline_s: float | None = None
    jobs_per_namespace: int = 10
    workers: int = 4
