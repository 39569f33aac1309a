"""The kinds of the API, as a server and `kubectl` name them."""

from typing import Final

from attrs import frozen

from dgdr_retune.api._candidate import Candidate
from dgdr_retune.api._conditions import ACCEPTED, COMPLETED, EVALUATED
from dgdr_retune.api._declare import ApiModel
from dgdr_retune.api._object import GROUP
from dgdr_retune.api._request import Request
from dgdr_retune.api._run import Run
from dgdr_retune.api._shape import Object, shape_of

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _condition_column(name: str) -> dict[str, str]:
    return {"name": name, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{name}")].status'}


@frozen
class Kind:
    """One kind of the API."""

    model: type[ApiModel]
    name: str
    plural: str
    short: str
    columns: tuple[dict[str, str], ...]

    @property
    def shape(self) -> Object:
        """The declarations of the kind's model."""
        return shape_of(self.model)

    @property
    def crd_name(self) -> str:
        """The name of the kind's CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


REQUEST: Final = Kind(
    model=Request,
    name="DynamoGraphDeploymentRequest",
    plural="dynamographdeploymentrequests",
    short="dgdr",
    columns=(
        {"name": "Model", "type": "string", "jsonPath": ".spec.modelRef.name"},
        {"name": "Active Run", "type": "string", "jsonPath": ".status.activeRunRef.name"},
        _condition_column(ACCEPTED),
        _AGE,
    ),
)
RUN: Final = Kind(
    model=Run,
    name="DynamoGraphDeploymentRun",
    plural="dynamographdeploymentruns",
    short="dgdrrun",
    columns=(
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        _condition_column(COMPLETED),
        {"name": "Candidates", "type": "integer", "jsonPath": ".status.progress.candidates.published"},
        _AGE,
    ),
)
CANDIDATE: Final = Kind(
    model=Candidate,
    name="DynamoGraphDeploymentCandidate",
    plural="dynamographdeploymentcandidates",
    short="dgdc",
    columns=(
        _condition_column(EVALUATED),
        {"name": "Backend", "type": "string", "jsonPath": ".spec.backendFramework"},
        _AGE,
    ),
)
KINDS: Final = (REQUEST, RUN, CANDIDATE)
