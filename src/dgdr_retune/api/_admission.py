"""What admission says about an object: its defaults, what is wrong with it, what a user should know."""

from typing import Any, Final

from attrs import evolve, frozen

from dgdr_retune.api._carrier import ConversionError, is_carrier, to_v1beta1, to_v1beta2
from dgdr_retune.api._fill import filled
from dgdr_retune.api._json import JsonValueError, canonical_json
from dgdr_retune.api._kinds import KINDS, REQUEST, Kind
from dgdr_retune.api._object import API_VERSION
from dgdr_retune.api._validate import Fault, Subresource, structural_faults

Json = Any

NO_BLOCK_SIZE: Final = (
    "spec.aisimulate: generator aic fails for a candidate without an explicit block size: set"
    " inputOverrides.engine.workers.<role>.kv_cache.block_size, or generator direct"
)
NO_SLA: Final = (
    "spec.objective.sla: AISimulate refuses a search for goodput without a latency bound:"
    " set e2eMs, or ttftMs and itlMs"
)
NO_HARDWARE: Final = (
    "spec.hardware.gpu.sku: AISimulate refuses auto alone: name the system, here or in"
    " inputOverrides.optimization.hardware"
)


@frozen
class Verdict:
    """Whether an object may be stored: it may if there are no errors. All in the order of the object's fields."""

    errors: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


def kind_of(value: Json) -> Kind | None:
    """The kind of an object of this API, carriers included; None for any other object."""
    if not isinstance(value, dict):
        return None
    if is_carrier(value):
        return REQUEST if value.get("kind") == REQUEST.name else None
    if value.get("apiVersion") != API_VERSION:
        return None
    return next((kind for kind in KINDS if kind.name == value.get("kind")), None)


def default(value: Json) -> Json:
    """A copy of an object with its defaults, except those that a CRD alone gives.

    Any other value comes back as it is. Done twice it changes nothing.
    """
    kind = kind_of(value)
    if kind is None:
        return value
    if not is_carrier(value):
        return filled(kind.shape, value, by_crd=False)
    try:
        return to_v1beta1(filled(kind.shape, to_v1beta2(value), by_crd=False))
    except ConversionError:
        return value


def validate(new: Json, old: Json = None, *, subresource: Subresource = "", strict: bool = True) -> Verdict:
    """Whether a create (without `old`) or an update may be stored, with every error at once.

    Args:
        new: the object as it was sent, of any kind of this API, or a carrier.
        old: the stored object of an update.
        subresource: what the request is for. The main resource leaves the status as it is stored, `status` all else.
        strict: whether unknown fields are refused (fieldValidation=Strict) or dropped.
    """
    kind = kind_of(new)
    if kind is None:
        names = ", ".join(f'"{each.name}"' for each in KINDS)
        return Verdict((Fault("kind", f"not an object of {API_VERSION}: supported kinds: {names}"),))
    carried = is_carrier(new)
    try:
        native = _carried(new, subresource) if carried else new
    except ConversionError as error:
        fault = Fault(error.part, str(error))
        return _verdict((evolve(fault, stored=_is_stored(new, old, error.part)),))
    if not carried:
        before = old
    elif is_carrier(old):
        before = _carried_before(old, subresource)
    else:
        before = None
    faults = structural_faults(kind, native, before, subresource=subresource, strict=strict)
    advice = _advice(native) if kind is REQUEST and not subresource else ()
    if carried:
        faults = tuple(_in_carrier(each) for each in faults)
        advice = tuple(each.replace("spec.", "spec.v1beta2.", 1) for each in advice)
    return _verdict(faults, advice)


def _verdict(faults: tuple[Fault, ...], advice: tuple[str, ...] = ()) -> Verdict:
    ratcheted = (f"{each} (it was stored like this and is left as it is)" for each in faults if each.stored)
    return Verdict(errors=tuple(each for each in faults if not each.stored), warnings=(*ratcheted, *advice))


def _is_stored(new: dict[str, Json], old: Json, part: str) -> bool:
    try:
        return isinstance(old, dict) and canonical_json(new.get(part)) == canonical_json(old.get(part))
    except JsonValueError:
        return False


def _carried(carrier: dict[str, Json], subresource: Subresource) -> dict[str, Json]:
    """The Request in a carrier; the part that the request does not write is left out if it cannot be converted.

    Errors: `ConversionError` in the part that is written.
    """
    rest = "spec" if subresource == "status" else "status"
    try:
        return to_v1beta2(carrier)
    except ConversionError as error:
        if error.part != rest:
            raise
    return to_v1beta2({name: value for name, value in carrier.items() if name != rest})


def _carried_before(stored: dict[str, Json], subresource: Subresource) -> Json:
    """What was stored, for ratcheting: None if it cannot be converted, so that an update may repair it."""
    try:
        return _carried(stored, subresource)
    except ConversionError:
        return None


def _in_carrier(fault: Fault) -> Fault:
    part, separator, rest = fault.path.partition(".")
    path = f"{part}.v1beta2{separator}{rest}" if part in ("spec", "status") else fault.path
    return evolve(fault, path=path, detail=fault.detail.replace(f'"{fault.path}"', f'"{path}"'))


def _advice(request: Json) -> tuple[str, ...]:
    """What fails later although it may be stored (requirement A10)."""
    spec = request.get("spec")
    aisimulate = _at(spec, "aisimulate")
    overrides = _at(aisimulate, "inputOverrides")
    target = _at(overrides, "optimization", "target") or _at(spec, "objective", "metric")
    sla = _at(overrides, "evaluation", "sla") or _at(spec, "objective", "sla")
    hardware = _at(overrides, "engine", "hardware") or _at(spec, "hardware", "gpu", "sku")
    workers = _at(overrides, "engine", "workers")
    roles = list(workers.values()) if isinstance(workers, dict) else []
    block_size = roles and all(_at(role, "kv_cache", "block_size") is not None for role in roles)
    advice = {
        NO_SLA: str(target).lower().startswith("goodput") and not sla,
        NO_HARDWARE: hardware == "auto" and _at(overrides, "optimization", "hardware") is None,
        NO_BLOCK_SIZE: _at(aisimulate, "generator") in (None, "aic") and not block_size,
    }
    return tuple(each for each, applies in advice.items() if applies)


def _at(value: Json, *names: str) -> Json:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
