"""What a service account asked the API server for, by the server's audit log, against what its roles grant."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen
from tests.cluster.cluster import Cluster

Json = Any

FORBIDDEN = 403


@frozen(order=True)
class Right:
    """One verb on one resource, which is written with its subresource (``jobs/status``)."""

    group: str
    resource: str
    verb: str


@frozen
class Asked:
    """One request that was answered."""

    right: Right
    user: str
    status: int
    uri: str
    message: str


def asked(cluster: Cluster, user: str) -> Iterator[Asked]:
    """Every request of one user, in order."""
    for line in Path(cluster.directory, "logs", "audit.log").read_text().splitlines():
        entry: dict[str, Json] = json.loads(line)
        reference = entry.get("objectRef")
        if entry["user"]["username"] != user or reference is None or "resource" not in reference:
            continue
        resource = "/".join(reference[key] for key in ("resource", "subresource") if reference.get(key))
        status = entry.get("responseStatus", {})
        yield Asked(
            Right(reference.get("apiGroup", ""), resource, entry["verb"]),
            user,
            status.get("code", 0),
            entry["requestURI"],
            status.get("message", ""),
        )


def granted(rules: Iterable[dict[str, Json]]) -> set[Right]:
    """What the rules of a role grant, one by one; a wildcard stays one and so is never used."""
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    }
