"""Addresses of objects."""

import pytest

from dgdr_retune.kube import CLAIMS, JOBS, Resource

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


def test_paths_name_the_group_the_namespace_the_object_and_its_part() -> None:
    assert CLAIMS.path() == "/api/v1/persistentvolumeclaims"
    assert CLAIMS.path("ns") == "/api/v1/namespaces/ns/persistentvolumeclaims"
    assert JOBS.path("ns", "a", "status") == "/apis/batch/v1/namespaces/ns/jobs/a/status"
    assert NODES.path("", "n") == "/api/v1/nodes/n"
    assert (CLAIMS.api_version, JOBS.api_version) == ("v1", "batch/v1")


@pytest.mark.parametrize(
    ("name", "segment"),
    [("a/b", "a%2Fb"), ("a?x=1", "a%3Fx%3D1"), ("a#b", "a%23b"), ("é", "%C3%A9"), ("system:x", "system:x")],
)
def test_no_name_leaves_its_segment(name: str, segment: str) -> None:
    assert JOBS.path("ns", name) == f"/apis/batch/v1/namespaces/ns/jobs/{segment}"


@pytest.mark.parametrize("arguments", [("", "a"), ("ns", ".."), ("..", "a"), ("ns", "", "status")])
def test_an_address_that_points_elsewhere_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"namespace|no name|name it"):
        JOBS.path(*arguments)


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    with pytest.raises(ValueError, match="without a namespace"):
        NODES.path("ns", "n")
