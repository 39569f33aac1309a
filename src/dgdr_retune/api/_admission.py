"""What admission says about an object: its defaults, what is wrong with it, what a user should know."""

from typing import Any, Final

from attrs import evolve, frozen

from dgdr_retune.api._carrier import ConversionError, is_carrier, to_v1beta1, to_v1beta2
from dgdr_retune.api._fill import filled
from dgdr_retune.api._kinds import KINDS, REQUEST, Kind
from dgdr_retune.api._object import API_VERSION
from dgdr_retune.api._validate import Fault, Subresource, structural_faults

Json = Any

NO_BLOCK_SIZE: Final = (
    "spec.aisimulate: generator aic fails for a candidate without an explicit block size: set"
    " inputOverrides.engine.workers.<role>.kv_cache.block_size, or generator direct"
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
    try:
        faults = _faults(kind, new, old, subresource=subresource, strict=strict)
    except ConversionError as error:
        return Verdict((Fault(error.part, str(error)),))
    ratcheted = (f"{each} (it was stored like this and is left as it is)" for each in faults if each.stored)
    return Verdict(
        errors=tuple(each for each in faults if not each.stored),
        warnings=(
            *ratcheted,
            *(_advice(to_v1beta2(new) if is_carrier(new) else new) if kind is REQUEST and not subresource else ()),
        ),
    )


def _faults(kind: Kind, new: Json, old: Json, *, subresource: Subresource, strict: bool) -> tuple[Fault, ...]:
    if not is_carrier(new):
        return structural_faults(kind, new, old, subresource=subresource, strict=strict)
    before = to_v1beta2(old) if is_carrier(old) else None
    faults = structural_faults(kind, to_v1beta2(new), before, subresource=subresource, strict=strict)
    return tuple(_in_carrier(each) for each in faults)


def _in_carrier(fault: Fault) -> Fault:
    part, separator, rest = fault.path.partition(".")
    path = f"{part}.v1beta2{separator}{rest}" if part in ("spec", "status") else fault.path
    return evolve(fault, path=path, detail=fault.detail.replace(f'"{fault.path}"', f'"{path}"'))


def _advice(request: Json) -> tuple[str, ...]:
    """What fails later although it may be stored (requirement A10)."""
    aisimulate = _at(request, "spec", *(("v1beta2",) if is_carrier(request) else ()), "aisimulate")
    if _at(aisimulate, "generator") not in (None, "aic"):
        return ()
    workers = _at(aisimulate, "inputOverrides", "engine", "workers")
    roles = list(workers.values()) if isinstance(workers, dict) else []
    explicit = roles and all(_at(role, "kv_cache", "block_size") is not None for role in roles)
    return () if explicit else (NO_BLOCK_SIZE,)


def _at(value: Json, *names: str) -> Json:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
