"""Names, labels, annotations and finalizers of everything that is written to Kubernetes.

Every function answers for every input, within Kubernetes' limits, and gives different answers to different inputs, up
to a collision of the hash that stands in for what did not fit.
"""

import hashlib
import re
from typing import Any, Final

from dgdr_retune.api._choices import REQUEST_NAME_MAX, RUN_NAME_MAX
from dgdr_retune.api._json import canonical_json
from dgdr_retune.api._object import GROUP

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

RUN_UID_LABEL: Final = f"{GROUP}/dgdr-run-uid"
"""On Jobs, Pods and Candidates: `label_value` of the Run's UID; what they are listed by."""
CANDIDATE_ID_LABEL: Final = f"{GROUP}/dgdr-candidate-id"
"""On Candidates: their id within the Run."""

REQUEST_NAME_ANNOTATION: Final = f"{GROUP}/dgdr-request-name"
"""On a Run: its Request's name."""
REQUEST_UID_ANNOTATION: Final = f"{GROUP}/dgdr-request-uid"
"""On a Run: its Request's UID, which guards against a later Request of that name."""
REQUEST_GENERATION_ANNOTATION: Final = f"{GROUP}/dgdr-request-generation"
"""On a Run: the generation that it copies, as a decimal number."""
INPUT_HASH_ANNOTATION: Final = f"{GROUP}/dgdr-input-hash"
"""On a Run: `spec_digest` of its specification."""
ADDITIONAL_RESOURCES_ANNOTATION: Final = "dgdr.nvidia.com/additional-resources"
"""On a Candidate: companions of the deployment, as YAML documents."""

_FINALIZER_PREFIX: Final = f"{GROUP}/dgdr-run-"
_FINALIZER_UID_MAX: Final = LABEL_MAX - len("dgdr-run-")


def run_name(request: str, generation: int) -> str:
    """The Run of a Request's generation: `<request>-run-<generation>`, at most 63 characters for its Job's sake."""
    return _fitted(request, f"-run-{generation}", RUN_NAME_MAX, hash_digits=8)


def planner_request_name(dgd: str, window_end_ms: int, part: str, spec: Any) -> str:
    """A planner's Request: the same window and specification give the same name, which a later leader looks for.

    Args:
        dgd: name of the DynamoGraphDeployment.
        window_end_ms: end of the window, unix milliseconds.
        part: `s<shard>`, `baseline` or `probe`.
        spec: the specification as it is sent.
    """
    suffix = f"-w{window_end_ms}-{part}-{spec_digest(spec)[:8]}"
    return _fitted(dgd, suffix, REQUEST_NAME_MAX, hash_digits=8)


def candidate_id(parameters: Any) -> str:
    """The id of a candidate within its Run: it depends on the parameters alone."""
    return f"evaluated-point-{_sha256(canonical_json(parameters))[:12]}"


def candidate_name(run: str, run_uid: str, candidate: str) -> str:
    """The Candidate object of a Run: `<run>-<8 digits of the Run's UID>-<candidate id>`, at most 253 characters.

    Different inputs have different names as long as `candidate` is from `candidate_id`, and no two UIDs of Runs of one
    name have the same 32-bit hash.
    """
    return _fitted(run, f"-{_sha256(run_uid)[:8]}-{candidate}", SUBDOMAIN_MAX, hash_digits=12)


def claim_finalizer(run_uid: str) -> str:
    """The finalizer by which a Run holds its claim."""
    fits = len(run_uid) <= _FINALIZER_UID_MAX and LABEL_VALUE.fullmatch(run_uid)
    return _FINALIZER_PREFIX + (run_uid if fits else _sha256(run_uid)[:32])


def is_claim_finalizer(finalizer: str) -> bool:
    """Whether some Run holds a claim by this finalizer; `holds_claim` says whether a given one does."""
    return finalizer.startswith(_FINALIZER_PREFIX) and finalizer != _FINALIZER_PREFIX


def holds_claim(finalizer: str, run_uid: str) -> bool:
    """Whether this finalizer is the one by which the Run of this UID holds its claim."""
    return finalizer == claim_finalizer(run_uid)


def label_value(text: str) -> str:
    """The text as a label's value: itself, or a hash of it where it is too long or not allowed there."""
    fits = not text or (len(text) <= LABEL_MAX and LABEL_VALUE.fullmatch(text))
    return text if fits else _sha256(text)[:32]


def spec_digest(spec: Any) -> str:
    """32 hex digits that depend on the JSON value alone: not on the order of keys, nor on 1 or 1.0."""
    return _sha256(canonical_json(spec))[:32]


def _fitted(head: str, tail: str, most: int, *, hash_digits: int) -> str:
    """`head + tail`; a head that is too long, or no name, is cut and says by a hash what it was."""
    whole = head + tail
    if len(whole) <= most and SUBDOMAIN.fullmatch(whole):
        return whole
    mark = _sha256(head)[:hash_digits]
    if len(mark + tail) > most or not SUBDOMAIN.fullmatch(mark + tail):
        mark, tail = _sha256(canonical_json([head, tail]))[:32], ""
    kept = re.sub(r"[^a-z0-9.-]+", "-", head.lower())[: max(most - len(mark + tail) - 1, 0)]
    kept = re.sub(r"-*\.[-.]*", ".", kept).strip("-.")
    return f"{kept}-{mark}{tail}" if kept else mark + tail


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
