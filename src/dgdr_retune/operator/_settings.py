"""The operator's one configuration model; flags, environment and file are three ways to fill it."""

import json
import socket
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dgdr_retune.controllers import (
    PUBLISHER_COMMAND,
    SWEEPER_COMMAND,
    Configuration,
    Resources,
)

LOOPBACK: Final = "127.0.0.1"


def _words(value: Any) -> Any:
    """A command from a flag or the environment: a JSON list of strings."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('a command is a JSON list of words, such as ["python", "-m", "dgdr_retune.sweeper"]') from None


def _off(value: Any) -> Any:
    return None if value == "off" else value


def _versioned(image: str) -> str:
    """The renderer of Candidates reads the version of the runtime from the image's tag."""
    tag = image.rpartition("/")[2].partition(":")[2].partition("@")[0]
    parts = tag.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):  # noqa: PLR2004 - x.y.z
        raise ValueError("its tag must be a version such as 1.6.1")
    return image


Image = Annotated[str, Field(min_length=1, max_length=1024)]
Command = Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_words)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")]
Name = Annotated[
    str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
]
Namespace = Annotated[str, Field(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$")]
Seconds = Annotated[float, Field(gt=0, le=86_400 * 30, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=0, le=65_535)]
OptionalSeconds = Annotated[Seconds | None, BeforeValidator(_off)]
OptionalPort = Annotated[Port | None, BeforeValidator(_off)]


class Settings(BaseModel):
    """What an operator is told: flags win over the environment, which wins over the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    operator_namespace: Annotated[Namespace, Field(min_length=1)]
    """Namespace that the operator runs in; the Lease of its leader is there."""
    namespace: Namespace = ""
    """Namespace whose Requests are served; empty: those of all namespaces."""
    sweeper_image: Image
    """Image of a Run's sweeper, for Requests that name none."""
    publisher_image: Image
    """Image of a Run's publisher."""
    runtime_image: Annotated[Image, AfterValidator(_versioned)]
    """Image of the deployments that Candidates describe; its tag must be a version such as 1.6.1."""
    sweeper_command: Command | None = None
    """Command of the sweeper as a JSON list; the default is this package's own. Kubernetes expands $(NAME) in it; the
    input is in DGDR_RETUNE_INPUT. For Dynamo's planner image see the operations guide."""
    publisher_command: Command = PUBLISHER_COMMAND
    """Command of the publisher as a JSON list, without what is to be published."""
    engine: Literal["built-in", "dynamo"] = "built-in"
    """Who replays traces in this package's sweeper: the built-in simulator, or Dynamo's own runtime where the sweeper's
    image has it."""
    num_gpus_per_node: Annotated[int, Field(ge=1, le=1024)] = 8
    """GPUs of one node; no replica of a Candidate spans nodes."""
    snapshot_interval_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 5
    """A running sweeper publishes its progress at most this often. Every five seconds is often enough for a person."""
    sweeper_cpu_request: Quantity = "1"
    """CPU that a sweeper is guaranteed; the built-in engine uses what it gets."""
    sweeper_cpu_limit: Quantity = "4"
    """CPU that a sweeper may use."""
    sweeper_memory_request: Quantity = "2Gi"
    """Memory that a sweeper is guaranteed."""
    sweeper_memory_limit: Quantity = "8Gi"
    """Memory at which a sweeper is killed; a window of a million requests needs less than half of it."""
    publisher_cpu_request: Quantity = "50m"
    """CPU that a publisher is guaranteed; it sleeps most of the time."""
    publisher_cpu_limit: Quantity = "500m"
    """CPU that a publisher may use."""
    publisher_memory_request: Quantity = "128Mi"
    """Memory that a publisher is guaranteed."""
    publisher_memory_limit: Quantity = "256Mi"
    """Memory at which a publisher is killed."""
    publisher_account: Name = "dgdr-retune-publisher"
    """ServiceAccount of Run Jobs, created in a namespace where it is missing; also the name of its RoleBinding."""
    publisher_role: Name = "dgdr-retune-publisher"
    """ClusterRole that this ServiceAccount is bound to."""
    history_limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Runs of a Request that are done and kept."""
    start_deadline_seconds: OptionalSeconds = None
    """A Run whose containers have not started this long after its Job was created fails; off by default, as in the
    reference. 1800 is recommended: it is longer than a node takes to come up and an image to be pulled."""
    jobs_per_namespace: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Most unfinished Run Jobs in a namespace; further Runs wait."""
    workers: Annotated[int, Field(ge=1, le=256)] = 4
    """Objects of a kind that are worked on at the same time; a worker mostly waits for the API server."""
    lease_name: Name = "dgdr-retune-operator"
    """Lease of the leader."""
    lease_duration_seconds: Annotated[int, Field(ge=1, le=86_400)] = 15
    """A leader that is not heard of for this long is replaced. Kubernetes' own components use the same three times."""
    renew_deadline_seconds: Seconds = 10
    """A leader that could not renew its Lease for this long stops its work."""
    retry_period_seconds: Seconds = 2
    """How often the Lease is renewed, or asked for."""
    identity: Annotated[str, Field(min_length=1, max_length=200)] = Field(default_factory=socket.gethostname)
    """How the Lease names this process; something random is added. The default is the host's name: the Pod's."""
    http_host: Annotated[str, Field(min_length=1)] = LOOPBACK
    """Address of /metrics, /healthz and /readyz. Loopback unless told otherwise; a kubelet's probes need another."""
    http_port: OptionalPort = 8080
    """Their port; 0 for any free one, or off."""
    webhook_certificate: Path | None = None
    """Certificate chain of the webhooks, a PEM file that may be replaced while they run. Without it there are none."""
    webhook_key: Path | None = None
    """Key of that certificate, a PEM file."""
    webhook_host: Annotated[str, Field(min_length=1)] = LOOPBACK
    """Address of the webhooks; the API server must reach it."""
    webhook_port: Port = 9443
    """Their port; 0 for any free one."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged."""

    @model_validator(mode="after")
    def _lease_times_fit(self) -> Self:
        if not 2 * self.retry_period_seconds <= self.renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                "have renew_deadline_seconds less than lease_duration_seconds and twice retry_period_seconds at least:"
                " a leader must be able to try twice before it gives up, and to give up before it is replaced"
            )
        return self

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> Self:
        if (self.webhook_certificate is None) != (self.webhook_key is None):
            raise ValueError("webhook_certificate and webhook_key belong together: give both, or neither")
        return self

    def configuration(self) -> Configuration:
        """What the controllers need of it."""
        ours = (*SWEEPER_COMMAND, "--engine", self.engine)
        return Configuration(
            sweeper_image=self.sweeper_image,
            publisher_image=self.publisher_image,
            runtime_image=self.runtime_image,
            sweeper_command=self.sweeper_command or ours,
            publisher_command=self.publisher_command,
            num_gpus_per_node=self.num_gpus_per_node,
            snapshot_interval_s=self.snapshot_interval_seconds,
            sweeper_resources=Resources(
                cpu_request=self.sweeper_cpu_request,
                cpu_limit=self.sweeper_cpu_limit,
                memory_request=self.sweeper_memory_request,
                memory_limit=self.sweeper_memory_limit,
            ),
            publisher_resources=Resources(
                cpu_request=self.publisher_cpu_request,
                cpu_limit=self.publisher_cpu_limit,
                memory_request=self.publisher_memory_request,
                memory_limit=self.publisher_memory_limit,
            ),
            publisher_account=self.publisher_account,
            publisher_role=self.publisher_role,
            history_limit=self.history_limit,
            start_deadline_s=self.start_deadline_seconds,
            jobs_per_namespace=self.jobs_per_namespace,
            workers=self.workers,
        )
