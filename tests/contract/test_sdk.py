"""What a program sees with the Python SDK (kubernetes_asyncio) against a real API server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration, CustomObjectsApi
from tests.contract.conftest import SERVED
from tests.contract.judges import Answer, ServerJudge, url_of
from tests.contract.row import Row, put, thing
from tests.contract.spec_rows import STATIC
from tests.contract.test_table import check
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.api import GROUP, REQUEST, VERSION, Kind
from dgdr_retune.testing._json import decode

Json = Any
Sdk = Callable[[Callable[[CustomObjectsApi], Awaitable[Json]]], Json]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CREATES = [row for row in SERVED if row.operation == "create"][::60]
UPDATES = [row for row in SERVED if row.operation != "create" and not row.loose][::25]


@pytest.fixture
def sdk(control_plane: ControlPlane, real: ServerJudge) -> Iterator[Sdk]:
    """Asks through the SDK; the Request `sent-by-the-sdk` goes afterwards."""

    async def asked(question: Callable[[CustomObjectsApi], Awaitable[Json]]) -> Json:
        configuration = Configuration()
        await config.load_kube_config(str(control_plane.kubeconfig), client_configuration=configuration)
        async with ApiClient(configuration) as client:
            return await question(CustomObjectsApi(client))

    yield lambda question: asyncio.run(asked(question))
    real.client.delete(url_of(REQUEST, "sent-by-the-sdk"))


def place(kind: Kind, name: str | None = None) -> dict[str, str]:
    """The arguments that say where an object is."""
    where = {"group": GROUP, "version": VERSION, "namespace": "default", "plural": kind.plural}
    return where if name is None else where | {"name": name}


SENT = place(REQUEST, "sent-by-the-sdk")


def request(spec: Json) -> Json:
    return put(thing(REQUEST, spec), "metadata.name", "sent-by-the-sdk")


def create(sdk: Sdk, body: Json, **options: str) -> Json:
    return sdk(lambda api: api.create_namespaced_custom_object(**place(REQUEST), body=body, **options))


def read(sdk: Sdk) -> Json:
    return sdk(lambda api: api.get_namespaced_custom_object(**SENT))


def answer_to(sdk: Sdk, question: Callable[[CustomObjectsApi], Awaitable[Json]]) -> Answer:
    try:
        sdk(question)
    except ApiException as error:
        body, _ = decode(error.body)
        causes = body.get("details", {}).get("causes", ())
        return Answer(
            accepted=False,
            message=body["message"],
            causes=frozenset((cause["field"], cause["message"]) for cause in causes),
        )
    return Answer(accepted=True)


def options_of(row: Row) -> dict[str, str]:
    return {"field_validation": "Strict" if row.strict else "Ignore", "dry_run": "All"}


@pytest.mark.parametrize("row", CREATES, ids=lambda row: row.id)
def test_what_is_created_is_judged_as_the_table_says(row: Row, sdk: Sdk) -> None:
    where, options = place(row.kind), options_of(row)
    check(answer_to(sdk, lambda api: api.create_namespaced_custom_object(**where, body=row.object, **options)), row)


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.id)
def test_what_is_replaced_is_judged_as_the_table_says(row: Row, sdk: Sdk, real: ServerJudge) -> None:
    where, options = place(row.kind, real.stored_name(row)), options_of(row)

    async def replace(api: CustomObjectsApi) -> Json:
        stored = await api.get_namespaced_custom_object(**where)
        call = api.replace_namespaced_custom_object
        if row.operation == "update status":
            call = api.replace_namespaced_custom_object_status
        return await call(**where, body=row.object | {"metadata": stored["metadata"]}, **options)

    check(answer_to(sdk, replace), row)


def test_numbers_and_nulls_come_back_as_the_server_keeps_them(sdk: Sdk) -> None:
    overrides = {"a": 1.0, "b": [0.5, 2.0], "c": None, "d": {"e": None}}
    spec = put(put(STATIC, "aisimulate", {"inputOverrides": overrides}), "image", None)
    create(sdk, request(put(spec, "hardware.gpu.budget", 2.0)), field_validation="Strict")
    stored = read(sdk)["spec"]
    assert "image" not in stored
    assert repr(stored["hardware"]["gpu"]["budget"]) == "2"
    assert repr(stored["aisimulate"]["inputOverrides"]) == "{'a': 1, 'b': [0.5, 2], 'c': None, 'd': {'e': None}}"


def test_what_was_read_can_be_sent_back_and_changes_nothing(sdk: Sdk) -> None:
    create(sdk, request(STATIC), field_validation="Strict")
    stored = read(sdk)
    again = sdk(lambda api: api.replace_namespaced_custom_object(**SENT, body=stored, field_validation="Strict"))
    assert again == stored


def test_a_misspelled_field_is_refused_in_a_create_and_in_a_patch(sdk: Sdk) -> None:
    with pytest.raises(ApiException, match="bakends") as caught:
        create(sdk, request(put(STATIC, "bakends", [])), field_validation="Strict")
    assert caught.value.status == 400
    create(sdk, request(STATIC), field_validation="Strict")
    with pytest.raises(ApiException, match="bakends") as caught:
        patch(sdk, {"spec": {"bakends": []}}, MERGE)
    assert caught.value.status == 422
    assert "bakends" not in read(sdk)["spec"]


def patch(sdk: Sdk, body: Json, content_type: str) -> Json:
    return sdk(
        lambda api: api.patch_namespaced_custom_object(
            **SENT, body=body, field_validation="Strict", _content_type=content_type
        )
    )


def test_a_patch_changes_what_it_names_and_is_judged_as_an_update(sdk: Sdk) -> None:
    create(sdk, request(STATIC), field_validation="Strict")
    patched = patch(sdk, {"spec": {"hardware": {"gpu": {"budget": 4.0}}, "image": "x"}}, MERGE)
    assert patched["spec"]["hardware"] == {"gpu": {"sku": "h200_sxm", "budget": 4}}
    assert patched["metadata"]["generation"] == 2
    assert "image" not in patch(sdk, {"spec": {"image": None}}, MERGE)["spec"]
    for body, content_type in (
        ({"spec": {"hardware": {"gpu": {"budget": 0}}}}, MERGE),
        ([{"op": "replace", "path": "/spec/hardware/gpu/budget", "value": 0}], JSON_PATCH),
    ):
        with pytest.raises(ApiException, match="greater than or equal to 1") as caught:
            patch(sdk, body, content_type)
        assert caught.value.status == 422


def test_a_write_on_what_has_changed_since_is_a_conflict(sdk: Sdk) -> None:
    stale = create(sdk, request(STATIC), field_validation="Strict")
    patch(sdk, [{"op": "add", "path": "/spec/image", "value": "x"}], JSON_PATCH)
    with pytest.raises(ApiException) as caught:
        sdk(lambda api: api.replace_namespaced_custom_object(**SENT, body=stale))
    assert caught.value.status == 409
