"""AdmissionReview (admission.k8s.io/v1) in, AdmissionReview out; no network.

Source of the format: Kubernetes, "Dynamic Admission Control".
"""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final, Literal, NoReturn

from attrs import frozen

from dgdr_retune.api import (
    Fault,
    Subresource,
    Verdict,
    default,
    kind_of,
    validate,
)

Json = Any

_REVIEW: Final = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
_JUDGED: Final = ("CREATE", "UPDATE")


class ReviewError(ValueError):
    """A body that is no AdmissionReview that can be answered; the message says what is wrong with it."""

    reason: Final = "MalformedReview"


@frozen
class Review:
    """What is asked: may this object be stored?"""

    uid: str
    operation: str
    subresource: Subresource | Literal["other"]
    new: Json
    old: Json

    @property
    def ours(self) -> bool:
        """Whether there is anything to say: an object of this API is to be stored."""
        return self.operation in _JUDGED and self.subresource != "other" and kind_of(self.new) is not None


def read_review(body: bytes) -> Review:
    """The question in a request's body.

    Errors: `ReviewError`.
    """
    try:
        review = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ReviewError("the body is nested too deeply") from error
    except ValueError as error:
        raise ReviewError(f"the body is no JSON: {error}") from error
    if not isinstance(review, dict) or {name: review.get(name) for name in _REVIEW} != _REVIEW:
        raise ReviewError("the body is no AdmissionReview of admission.k8s.io/v1")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewError("the AdmissionReview holds no request")
    uid, operation, subresource = request.get("uid"), request.get("operation"), request.get("subResource", "")
    if not isinstance(uid, str) or not uid or not isinstance(operation, str):
        raise ReviewError("the AdmissionReview's request holds no uid or no operation")
    return Review(
        uid=uid,
        operation=operation,
        subresource=subresource if subresource in ("", "status") else "other",
        new=request.get("object"),
        old=request.get("oldObject"),
    )


def mutated(review: Review) -> Json:
    """The answer of `/mutate`: always allowed, with the defaults as a JSON patch if there are any to fill in."""
    patch = list(additions(review.new, default(review.new))) if review.ours and review.subresource == "" else []
    if not patch:
        return _answer(review, {"allowed": True})
    text = json.dumps(patch, separators=(",", ":")).encode()
    return _answer(review, {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(text).decode()})


def validated(review: Review) -> Json:
    """The answer of `/validate`: every fault at once, and what the user should know.

    Unknown fields are no fault here: the API server has dropped those that it does not know, and may know more.
    """
    if not review.ours or review.subresource == "other":
        return _answer(review, {"allowed": True})
    verdict = validate(review.new, review.old, subresource=review.subresource, strict=False)
    warnings = {"warnings": list(verdict.warnings)} if verdict.warnings else {}
    if not verdict.errors:
        return _answer(review, {"allowed": True} | warnings)
    return _answer(review, {"allowed": False, "status": _status(review.new, verdict)} | warnings)


def additions(before: Json, after: Json, pointer: str = "") -> Iterator[dict[str, Json]]:
    """The JSON patch (RFC 6902) that adds to an object what another one has more."""
    if after is before or not isinstance(before, dict) or not isinstance(after, dict):
        return
    for name, value in after.items():
        below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if before.get(name) is None and value is not None:
            yield {"op": "add", "path": below, "value": value}
        else:
            yield from additions(before.get(name), value, below)


def _answer(review: Review, response: dict[str, Json]) -> Json:
    return {**_REVIEW, "response": {"uid": review.uid, **response}}


def _status(new: Json, verdict: Verdict) -> dict[str, Json]:
    metadata = new.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    faults = [str(fault) for fault in verdict.errors]
    what = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
    return {
        "code": 422,
        "reason": "Invalid",
        "message": f'{new["kind"]} "{name}" is invalid: {what}',
        "details": {"kind": new["kind"], "name": name, "causes": [_cause(fault) for fault in verdict.errors]},
    }


def _cause(fault: Fault) -> dict[str, str]:
    return {"reason": fault.reason, "field": fault.path, "message": fault.detail}


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
