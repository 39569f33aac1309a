"""What a world has come to: all that matters of its objects, without times, UIDs, versions and generated names."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from dgdr_retune.api import is_claim_finalizer
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._part import (
    CANDIDATES,
    CLAIMS,
    JOBS,
    PODS,
    REQUESTS,
    RUNS,
    SERVICE_ACCOUNTS,
    controller_uid,
)
from dgdr_retune.testing._store import Store

_KINDS: Final = (REQUESTS, RUNS, CANDIDATES, JOBS, PODS, CLAIMS, SERVICE_ACCOUNTS)


def end_state(store: Store) -> dict[str, list[str]]:
    """What there is of each kind, an object a line, sorted."""
    names = {
        value["metadata"]["uid"]: f"{value['kind']} {value['metadata']['name']}"
        for resource in _KINDS
        for _, value in store.items(resource)
    }
    return {
        resource: sorted(
            f"{value['metadata']['namespace']}/{_described(value, resource, names)}"
            for _, value in store.items(resource)
        )
        for resource in _KINDS
    }


def difference(wanted: Mapping[str, list[str]], found: Mapping[str, list[str]]) -> list[str]:
    """What is missing (-) and what is too much (+)."""
    lines = []
    for resource, rows in wanted.items():
        missing = Counter(rows) - Counter(found[resource])
        extra = Counter(found[resource]) - Counter(rows)
        lines += [f"- {resource} {row}" for row in missing.elements()]
        lines += [f"+ {resource} {row}" for row in extra.elements()]
    return lines


def _described(value: Json, resource: str, names: Mapping[str, str]) -> str:
    metadata, status = value["metadata"], value.get("status", {})
    owner = controller_uid(value)
    parts = [f"of {names.get(owner, 'nobody')}" if resource in (PODS, CANDIDATES) else metadata["name"]]
    if "deletionTimestamp" in metadata:
        parts.append("going")
    parts += sorted(f"held by {_holder(each, names)}" for each in metadata.get("finalizers", ()))
    parts += [f"{name}={status[name]}" for name in ("phase", "observedGeneration") if name in status]
    if "activeRunRef" in status:
        parts.append(f"active={status['activeRunRef']['name']}")
    if "recentRunRefs" in status:
        parts.append(f"recent={[each['name'] for each in status['recentRunRefs']]}")
    if "candidateRefs" in status:
        parts.append(f"candidates={len(status['candidateRefs'])}")
    conditions = () if resource == PODS else status.get("conditions", ())
    parts += [f"{each['type']}={each['status']} {each.get('reason', '')}" for each in conditions]
    return " ".join(parts)


def _holder(finalizer: str, names: Mapping[str, str]) -> str:
    if not is_claim_finalizer(finalizer):
        return finalizer
    return next((name for uid, name in names.items() if finalizer.endswith(uid)), "a Run that is gone")
