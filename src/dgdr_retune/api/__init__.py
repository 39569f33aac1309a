"""What Kubernetes stores: Request, Run and Candidate as models, and all that is derived from them. Pure."""

from dgdr_retune.api._candidate import Candidate, CandidateSpec, CandidateStatus
from dgdr_retune.api._crds import custom_resource_definition
from dgdr_retune.api._kinds import CANDIDATE, KINDS, REQUEST, RUN, Kind
from dgdr_retune.api._request import Request, RequestSpec, RequestStatus
from dgdr_retune.api._run import Run, RunSpec, RunStatus
from dgdr_retune.api._validate import Fault, Verdict, structural_verdict

__all__ = [
    "CANDIDATE",
    "KINDS",
    "REQUEST",
    "RUN",
    "Candidate",
    "CandidateSpec",
    "CandidateStatus",
    "Kind",
    "Request",
    "RequestSpec",
    "RequestStatus",
    "Run",
    "RunSpec",
    "RunStatus",
    "custom_resource_definition",
]
