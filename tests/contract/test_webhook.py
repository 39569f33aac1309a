"""The webhooks behind a real API server: with them it says what it says without them, and what only they know."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.judges import ServerJudge, definitions, holds_whole_float, loosened, remove_definitions, url_of
from tests.contract.row import Row, thing
from tests.contract.spec_rows import STATIC
from tests.contract.table import ROWS as TABLE
from tests.contract.test_table import check
from tests.contract.webhooks import OWN_NAMESPACE, asked, create
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.api import REQUEST

Json = Any

UNKNOWN = ":pruning"  # which fields are unknown is for the server to know, and it sends 1.0 as 1
ROWS = [row for row in TABLE if not row.validate_alone and row.operation in ("create", "update")]

JUDGED_BY_THE_WEBHOOK = [
    row for row in ROWS if row.operation == "create" and row.constraint != UNKNOWN and not holds_whole_float(row.object)
]


@pytest.fixture(scope="module")
def webhooked(control_plane: ControlPlane, real: ServerJudge) -> Iterator[ServerJudge]:
    with asked(real.client, control_plane):
        yield real


@pytest.fixture(scope="module")
def webhook_alone(other_plane: ControlPlane) -> Iterator[ServerJudge]:
    """A server whose definitions let everything pass."""
    with other_plane.client() as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        for definition in definitions():
            judge.install(loosened(definition))
        judge.wait_until(refuses_nonsense=False)
        with asked(client, other_plane):
            yield judge
        remove_definitions(client)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_real_server_judges_with_webhooks_as_the_table_says(row: Row, webhooked: ServerJudge) -> None:
    check(webhooked.ask(row), row)


@pytest.mark.parametrize("row", JUDGED_BY_THE_WEBHOOK, ids=lambda row: row.id)
def test_the_webhook_alone_judges_as_the_table_says(row: Row, webhook_alone: ServerJudge) -> None:
    answer = webhook_alone.ask(row)
    assert answer.accepted is not bool(row.refused), answer.message
    assert row.refused in answer.message
    if row.field:
        assert row.field in answer.fields


def test_a_request_whose_candidates_would_fail_to_render_is_accepted_with_a_warning(webhooked: ServerJudge) -> None:
    made = create(webhooked.client, thing(REQUEST, STATIC))
    assert made.status_code == 201
    assert "block size" in made.headers["Warning"]
    direct = create(webhooked.client, thing(REQUEST, STATIC | {"aisimulate": {"generator": "direct"}}))
    assert "Warning" not in direct.headers


def test_the_operators_own_namespace_is_left_alone(webhooked: ServerJudge) -> None:
    client = webhooked.client
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    assert client.post("/api/v1/namespaces", json=namespace).status_code == 201
    url = url_of(REQUEST).replace("/default/", f"/{OWN_NAMESPACE}/")
    made = client.post(url, params={"dryRun": "All"}, json={**thing(REQUEST, STATIC), "metadata": {"name": "a"}})
    assert made.status_code == 201, made.text
    assert "Warning" not in made.headers
