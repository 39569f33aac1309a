"""The Kubernetes API as this project uses it: transport, cached watches, work queue, events, leader election."""

from dgdr_retune.kube._api import Api, Listing, Propagation
from dgdr_retune.kube._backoff import Backoff
from dgdr_retune.kube._cache import Cache, without_managed_fields
from dgdr_retune.kube._calls import Observe
from dgdr_retune.kube._elector import Elector, FencedTransport, NotLeadingError
from dgdr_retune.kube._errors import (
    AlreadyExistsError,
    Cause,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    MaybeAppliedError,
    NotFoundError,
    NotSentError,
    RefusedError,
)
from dgdr_retune.kube._events import EventRecorder
from dgdr_retune.kube._lease import Term
from dgdr_retune.kube._login import ConfigurationError, InCluster, Kubeconfig
from dgdr_retune.kube._queue import WorkQueue
from dgdr_retune.kube._reflector import Reflector
from dgdr_retune.kube._resource import (
    CLAIMS,
    EVENTS,
    JOBS,
    LEASES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Json,
    Resource,
)
from dgdr_retune.kube._series import EventType
from dgdr_retune.kube._transport import HttpTransport, connect
from dgdr_retune.kube._wire import Answer, Call, Stream, Transport

__all__ = [
    "CLAIMS",
    "EVENTS",
    "JOBS",
    "LEASES",
    "PODS",
    "ROLE_BINDINGS",
    "SERVICE_ACCOUNTS",
    "AlreadyExistsError",
    "Answer",
    "Api",
    "Backoff",
    "Cache",
    "Call",
    "Cause",
    "ConfigurationError",
    "ConflictError",
    "Elector",
    "EventRecorder",
    "EventType",
    "FencedTransport",
    "ForbiddenError",
    "GoneError",
    "HttpTransport",
    "InCluster",
    "InvalidError",
    "Json",
    "KubeError",
    "Kubeconfig",
    "Listing",
    "MaybeAppliedError",
    "NotFoundError",
    "NotLeadingError",
    "NotSentError",
    "Observe",
    "Propagation",
    "Reflector",
    "RefusedError",
    "Resource",
    "Stream",
    "Term",
    "Transport",
    "WorkQueue",
    "connect",
    "without_managed_fields",
]
