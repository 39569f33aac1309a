"""A snapshot's candidate as the object that is published. Pure."""

from typing import Any, Final

import yaml
from attrs import frozen

from dgdr_retune.api import (
    ADDITIONAL_RESOURCES_ANNOTATION,
    API_VERSION,
    CANDIDATE,
    CANDIDATE_ID_LABEL,
    GROUP,
    RUN,
    RUN_UID_LABEL,
    JsonValueError,
    candidate_name,
    canonical,
    canonical_json,
    label_value,
    metadata_faults,
    validate,
)
from dgdr_retune.publisher._errors import SnapshotError
from dgdr_retune.publisher._yaml import YamlError, documents

Json = Any

DEPLOYMENT_KIND: Final = "DynamoGraphDeployment"
DEPLOYMENT_API_VERSION: Final = f"{GROUP}/v1beta1"

MAX_OBJECT_BYTES: Final = 1 << 20
"""Of specification, metrics and companions together: etcd takes 1.5 MiB with everything that a server adds."""

_FAULTS_SHOWN: Final = 3


@frozen
class Candidate:
    """One deployment that the sweeper recommends, checked to be one that an API server stores.

    Attributes:
        id: within the Run.
        spec: the deployment's specification, and `parameters`.
        metrics: what the replay measured.
        companions: YAML documents that go with the deployment; empty for none.
    """

    id: str
    spec: dict[str, Json]
    metrics: dict[str, Json]
    companions: str


def read_candidate(
    candidate_id: str, *, parameters: dict[str, Json], metrics: dict[str, Json], manifest: str
) -> Candidate:
    """A candidate from what a snapshot says about it.

    Errors: `SnapshotError` unless the manifest holds exactly one DynamoGraphDeployment of v1beta1 with a specification,
    and specification, companions and metrics make an object that an API server with our CRDs stores.
    """
    deployment, companions = _split(candidate_id, manifest)
    if "parameters" in deployment:
        raise _refusal(candidate_id, "the deployment's spec has a field `parameters`, which is the Candidate's own")
    try:
        candidate = Candidate(
            id=candidate_id,
            spec=canonical({**deployment, "parameters": parameters}),
            metrics=canonical(metrics),
            companions=yaml.safe_dump_all(companions, sort_keys=False) if companions else "",
        )
    except JsonValueError as error:
        raise _refusal(candidate_id, str(error)) from error
    _check_stored(candidate)
    return candidate


def candidate_object(candidate: Candidate, *, run_name: str, run_uid: str) -> dict[str, Json]:
    """The object to create, without a namespace and a status."""
    metadata: dict[str, Json] = {
        "name": candidate_name(run_name, run_uid, candidate.id),
        "labels": {RUN_UID_LABEL: label_value(run_uid), CANDIDATE_ID_LABEL: candidate.id},
        "ownerReferences": [
            {"apiVersion": API_VERSION, "kind": RUN.name, "name": run_name, "uid": run_uid, "controller": True}
        ],
    }
    if candidate.companions:
        metadata["annotations"] = {ADDITIONAL_RESOURCES_ANNOTATION: candidate.companions}
    return {"apiVersion": API_VERSION, "kind": CANDIDATE.name, "metadata": metadata, "spec": candidate.spec}


def _split(candidate_id: str, manifest: str) -> tuple[dict[str, Json], list[Json]]:
    """The one deployment's specification, and the other documents."""
    try:
        parts = [each for each in documents(manifest) if each is not None]
    except YamlError as error:
        raise _refusal(candidate_id, f"manifest: {error}") from error
    if not all(isinstance(each, dict) and isinstance(each.get("kind"), str) for each in parts):
        raise _refusal(candidate_id, "manifest: every document must be an object with a kind")
    deployments = [each for each in parts if _is_deployment(each)]
    if len(deployments) != 1:
        raise _refusal(candidate_id, f"manifest: {len(deployments)} documents are a {DEPLOYMENT_KIND}, want exactly 1")
    deployment = deployments[0]
    if deployment["apiVersion"] != DEPLOYMENT_API_VERSION:
        raise _refusal(candidate_id, f"manifest: the {DEPLOYMENT_KIND} must be of {DEPLOYMENT_API_VERSION}")
    spec = deployment.get("spec")
    if not isinstance(spec, dict) or not spec:
        raise _refusal(candidate_id, f"manifest: the {DEPLOYMENT_KIND} has no spec")
    return spec, [each for each in parts if each is not deployment]


def _is_deployment(document: dict[str, Json]) -> bool:
    group = str(document.get("apiVersion", "")).partition("/")[0]
    return document["kind"] == DEPLOYMENT_KIND and group == GROUP


def _check_stored(candidate: Candidate) -> None:
    """Ask what an API server would; names of Run and Candidate are valid by their making."""
    created = candidate_object(candidate, run_name="run", run_uid="0")
    faults = (*metadata_faults(created["metadata"]), *validate(created).errors)
    faults += validate({**created, "status": {"metrics": candidate.metrics}}, created, subresource="status").errors
    if faults:
        shown = "; ".join(f"{each.path}: {each.detail}" for each in faults[:_FAULTS_SHOWN])
        raise _refusal(candidate.id, f"an API server would refuse it: {shown}")
    size = len(canonical_json([created, candidate.metrics]))
    if size > MAX_OBJECT_BYTES:
        raise _refusal(candidate.id, f"it has {size} bytes; at most {MAX_OBJECT_BYTES} can be stored")


def _refusal(candidate_id: str, cause: str) -> SnapshotError:
    return SnapshotError("InvalidSnapshot", f"candidate {candidate_id}: {cause}")
