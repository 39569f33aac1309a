"""What the sweeper wants to be published: a complete desired state. Pure; the text is not trusted."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from attrs import field, frozen
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from dgdr_retune.publisher._candidate import Candidate, read_candidate
from dgdr_retune.publisher._errors import SnapshotError
from dgdr_retune.publisher._yaml import YamlError, documents

Json = Any
Phase = Literal["Running", "Succeeded", "Failed"]

MAX_CANDIDATES: Final = 100
"""As many as a Run's status can name."""

_COUNT_MAX: Final = 2**31 - 1
_TEXT_MAX: Final = 16_000
_FAULTS_SHOWN: Final = 3

Count = Annotated[int, Field(ge=0, le=_COUNT_MAX)]
Text = Annotated[str, Field(max_length=_TEXT_MAX)]


@frozen
class Snapshot:
    """A snapshot that was read and checked.

    Attributes:
        phase: what the sweeper is, or how it ended.
        reported_at: RFC 3339 in UTC; None if the sweeper gave no valid time.
        message: what the sweeper says, for people.
        error: why it failed.
        round: the round that the search is in.
        evaluated: evaluations of this round that are done.
        evaluations: evaluations by their state, as the Run's status names them; empty if the sweeper does not say.
        candidates: the best first.
        unmaterialized: ids of candidates that could not be rendered, with their errors.
    """

    phase: Phase
    reported_at: str | None = None
    message: str | None = None
    error: str | None = None
    round: int = 0
    evaluated: int = 0
    evaluations: dict[str, int] = field(factory=dict)
    candidates: tuple[Candidate, ...] = ()
    unmaterialized: tuple[tuple[str, str], ...] = ()

    @property
    def terminal(self) -> bool:
        """Whether no other snapshot follows."""
        return self.phase != "Running"


def read_snapshot(content: bytes) -> Snapshot:
    """A snapshot from a file's bytes.

    Errors: `SnapshotError` with reason `InvalidSnapshot`.
    """
    try:
        parts = documents(content.decode())
    except UnicodeDecodeError as error:
        raise _refusal(f"not UTF-8 at byte {error.start}") from error
    except YamlError as error:
        raise _refusal(str(error)) from error
    if len(parts) != 1:
        raise _refusal(f"{len(parts)} documents, want exactly 1")
    try:
        document = _Document.model_validate(parts[0])
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)[:_FAULTS_SHOWN]
        raise _refusal("; ".join(f"{_path(each['loc'])}: {each['msg']}" for each in faults)) from error
    return Snapshot(
        phase=document.run.phase,
        reported_at=_time(document.timestamp),
        message=document.run.message,
        error=document.run.error,
        round=document.progress.round,
        evaluated=document.progress.evaluated,
        evaluations=document.progress.evaluations.counts(),
        candidates=tuple(each.candidate() for each in document.candidates if each.manifest is not None),
        unmaterialized=tuple((each.id, each.error) for each in document.candidates if each.error is not None),
    )


def check_follows(snapshot: Snapshot, before: Snapshot | None) -> None:
    """Check that a snapshot can come after the one that was accepted before.

    Errors: `SnapshotError` with reason `RegressingSnapshot`.
    """
    if before is None or snapshot == before:
        return
    if before.terminal and not snapshot.terminal:
        raise SnapshotError("RegressingSnapshot", f"the phase went from {before.phase} to {snapshot.phase}")
    if snapshot.round < before.round:
        raise SnapshotError("RegressingSnapshot", f"the round went from {before.round} to {snapshot.round}")
    if snapshot.round == before.round and snapshot.evaluated < before.evaluated and not snapshot.terminal:
        cause = f"the evaluations of round {before.round} went from {before.evaluated} to {snapshot.evaluated}"
        raise SnapshotError("RegressingSnapshot", cause)


class _Part(BaseModel):
    """A part of the document on the wire."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel)


class _Run(_Part):
    phase: Phase
    terminal: bool
    message: Text | None = None
    error: Text | None = None

    @model_validator(mode="after")
    def _terminal_is_told_twice(self) -> Self:
        if self.terminal != (self.phase != "Running"):
            raise ValueError(f"terminal is {self.terminal} and the phase is {self.phase}")
        return self


class _Evaluations(_Part):
    """Beside what the public form has: where the sweeper counts evaluations by their state, it says so here."""

    scheduled: Count | None = None
    running: Count | None = None
    feasible: Count | None = None
    infeasible: Count | None = None
    failed: Count | None = None
    unsupported: Count | None = None
    cache_hits: Count | None = None

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.model_dump(by_alias=True, exclude_none=True)
        return counts


class _Progress(_Part):
    round: Count
    evaluated: Count
    evaluations: _Evaluations = _Evaluations()


class _Candidate(_Part):
    id: Annotated[str, Field(max_length=48, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    outcome: Literal["materialized", "materialization_failed"]
    parameters: dict[str, Json]
    metrics: dict[str, Json]
    manifest: str | None = None
    error: Text | None = None

    @model_validator(mode="after")
    def _outcome_says_what_is_there(self) -> Self:
        rendered = self.outcome == "materialized"
        if (self.manifest is not None) != rendered or (self.error is not None) == rendered:
            raise ValueError(
                f"outcome {self.outcome} needs {'a manifest and no error' if rendered else 'an error alone'}"
            )
        return self

    def candidate(self) -> Candidate:
        return read_candidate(self.id, parameters=self.parameters, metrics=self.metrics, manifest=self.manifest or "")


class _Document(_Part):
    schema_version: Literal[1]
    timestamp: Any = None
    run: _Run
    progress: _Progress
    candidates: Annotated[list[_Candidate], Field(max_length=MAX_CANDIDATES)]

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = [each.id for each in self.candidates]
        if repeated := sorted({each for each in ids if ids.count(each) > 1}):
            raise ValueError(f"the candidate id {repeated[0]} stands twice")
        return self


def _time(value: Json) -> str | None:
    """The time if it is one of UTC in whole seconds, spelled as Kubernetes spells it."""
    if not isinstance(value, str):
        return None
    try:
        read = datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - the Z is in the format
    except ValueError:
        return None
    return value if read.strftime("%Y-%m-%dT%H:%M:%SZ") == value else None


def _path(location: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _refusal(cause: str) -> SnapshotError:
    return SnapshotError("InvalidSnapshot", cause)
