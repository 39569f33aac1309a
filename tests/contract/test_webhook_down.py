"""What holds while the webhooks do not answer."""

from tests.contract.judges import ServerJudge, definitions, remove_definitions
from tests.contract.row import thing
from tests.contract.spec_rows import STATIC
from tests.contract.webhooks import configured, create, wait_until
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.processes import free_ports

from dgdr_retune.api import REQUEST

FAILED_OPEN = 'apiserver_admission_webhook_fail_open_count{name="validate.retune.dgdr.nvidia.com"'


def test_with_the_webhooks_down_the_definitions_alone_still_judge(other_plane: ControlPlane) -> None:
    with other_plane.client() as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        judge.prepare([], definitions())
        good, bad = thing(REQUEST, STATIC), thing(REQUEST, STATIC | {"backends": ["vllm", "vllm"]})
        (nobody,) = free_ports(1)
        with configured(client, other_plane, nobody):
            wait_until(lambda: create(client, good).is_success and FAILED_OPEN in client.get("/metrics").text)
            assert create(client, good).status_code == 201
            assert "name each backend once" in create(client, bad).json()["message"]
        remove_definitions(client)
