"""Generator `direct`: a candidate's parameters as a DynamoGraphDeployment, from a template of each mode.

Parameters are named as AISimulate names them: for an aggregated deployment `tp`, `replicas` and so on beside
`agg_block_size` and its like, for a disaggregated one all of them once with `prefill_` and once with `decode_`.
The KV cache's size is left to vLLM, which takes what the GPU has.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from dgdr_retune.api import canonical
from dgdr_retune.sweeper._errors import RenderError
from dgdr_retune.sweeper._input import Json, OutputSection
from dgdr_retune.sweeper._yaml import dump

API_VERSION: Final = "nvidia.com/v1beta1"
KIND: Final = "DynamoGraphDeployment"
GPU: Final = "nvidia.com/gpu"

NAME_MAX: Final = 63
"""Names of Services and labels are made from a deployment's name."""

_KV_EVENTS: Final = '{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}'
_KV_TRANSFER: Final = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'

_ROUTER_MODES: Final = {"kv_router": "kv", "round_robin": "round-robin"}
_ROUTER_VARIABLES: Final = {
    "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT": "overlap_score_credit",
    "DYN_ROUTER_PREFILL_LOAD_SCALE": "prefill_load_scale",
    "DYN_ROUTER_TEMPERATURE": "temperature",
}

Role = Literal["agg", "prefill", "decode"]

_AGGREGATED_BARE: Final = frozenset({"tp", "pp", "attention_dp", "moe_tp", "moe_ep", "strategy", "replicas"})


def render(parameters: Mapping[str, Json], output: OutputSection, *, candidate: str) -> str:
    """The deployment of a candidate as one YAML document.

    Args:
        parameters: its resolved configuration.
        output: image, namespace, GPUs of a node.
        candidate: its id, which ends with its hash.

    Errors: `RenderError`.
    """
    backend, mode = _need(parameters, "backend"), _need(parameters, "deployment_mode")
    if backend != "vllm":
        raise RenderError(f"backend: the template is for vllm, not for {backend!r}; use generator aic with AISimulate")
    components = [_frontend(parameters, output)]
    match mode:
        case "agg":
            components.append(_worker("Worker", "worker", _Role(parameters, "agg"), output))
        case "disagg":
            components.append(_worker("Prefill", "prefill", _Role(parameters, "prefill"), output))
            components.append(_worker("Decode", "decode", _Role(parameters, "decode"), output))
        case _:
            raise RenderError(f"deployment_mode: there is no template for {mode!r}; use agg or disagg")
    _check_gpus(components, _need(parameters, "used_gpus"))
    suffix = f"-{candidate.rpartition('-')[2]}"
    metadata = {"name": output.name[: NAME_MAX - len(suffix)].rstrip("-") + suffix}
    if output.namespace is not None:
        metadata["namespace"] = output.namespace
    return dump(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": {"backendFramework": backend, "components": components},
        }
    )


class _Role:
    """The parameters of one pool of workers."""

    def __init__(self, parameters: Mapping[str, Json], role: Role) -> None:
        self.role = role
        self.parameters = parameters

    def __getitem__(self, name: str) -> Json:
        bare = self.role == "agg" and name in _AGGREGATED_BARE
        return _need(self.parameters, name if bare else f"{self.role}_{name}")

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        gpus: int = self["tp"] * self["pp"] * self["attention_dp"]
        return gpus


def _need(parameters: Mapping[str, Json], name: str) -> Json:
    if parameters.get(name) is None:
        raise RenderError(f"{name}: a deployment cannot be written without it")
    return parameters[name]


def _frontend(parameters: Mapping[str, Json], output: OutputSection) -> dict[str, Json]:
    router = _need(_need(parameters, "adapters"), "dynamo.router")
    policy = router.get("policy", router.get("mode"))
    load_model = router.get("prefill_load_model", {"type": "none"})
    if policy not in _ROUTER_MODES:
        raise RenderError(f"adapters.dynamo.router.policy: {policy!r} is none of {', '.join(_ROUTER_MODES)}")
    if load_model != {"type": "none"}:
        raise RenderError(f"adapters.dynamo.router.prefill_load_model: only type none is rendered, not {load_model!r}")
    env = [{"name": "DYN_ROUTER_MODE", "value": _ROUTER_MODES[policy]}]
    if policy == "kv_router":
        env += [{"name": name, "value": _number(_need(router, knob))} for name, knob in _ROUTER_VARIABLES.items()]
        env.append({"name": "DYN_ROUTER_PREFILL_LOAD_MODEL", "value": "none"})
    return _component("Frontend", "frontend", 1, {"env": env}, output)


def _worker(name: str, kind: str, role: _Role, output: OutputSection) -> dict[str, Json]:
    nodes, odd = divmod(role.gpus, output.num_gpus_per_node)
    if role.gpus > output.num_gpus_per_node and odd:
        raise RenderError(
            f"{role.role}: a worker of {role.gpus} GPUs does not fill whole nodes of {output.num_gpus_per_node};"
            " set another num_gpus_per_node, or another layout"
        )
    gpus = min(role.gpus, output.num_gpus_per_node)
    container = {
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": _arguments(role),
        "resources": {"limits": {GPU: str(gpus)}},
    }
    component = _component(name, kind, role["replicas"], container, output)
    return component | ({"multinode": {"nodeCount": nodes}} if nodes > 1 else {})


def _arguments(role: _Role) -> list[str]:
    arguments = ["--model", _need(role.parameters, "model_name"), "--tensor-parallel-size", role["tp"]]
    if role["pp"] > 1:
        arguments += ["--pipeline-parallel-size", role["pp"]]
    match role["strategy"]:
        case "tp":
            pass
        case "tep":
            arguments += ["--enable-expert-parallel"]
        case "dep":
            arguments += ["--data-parallel-size", role["attention_dp"], "--enable-expert-parallel"]
        case strategy:
            raise RenderError(f"{role.role}: there is no template for the strategy {strategy!r}; use tp, tep or dep")
    if isinstance(context := role.parameters.get("context_length"), int):
        arguments += ["--max-model-len", context]
    caching = "--enable-prefix-caching" if role["enable_prefix_caching"] else "--no-enable-prefix-caching"
    arguments += ["--block-size", role["block_size"], "--max-num-seqs", role["max_num_seqs"]]
    arguments += ["--max-num-batched-tokens", role["max_num_batched_tokens"], caching]
    if role.role != "agg":
        arguments += ["--disaggregation-mode", role.role]
    if role.role != "decode":
        arguments += ["--kv-events-config", _KV_EVENTS]
    if role.role != "agg":
        arguments += ["--kv-transfer-config", _KV_TRANSFER]
    return [str(argument) for argument in arguments]


def _component(
    name: str, kind: str, replicas: int, container: dict[str, Json], output: OutputSection
) -> dict[str, Json]:
    main = {"name": "main", "image": output.runtime_image, **container}
    component: dict[str, Any] = {"name": name, "type": kind, "replicas": replicas}
    if output.runtime_version_override is not None:
        component["runtimeVersionOverride"] = output.runtime_version_override
    return component | {"podTemplate": {"spec": {"containers": [main]}}}


def _check_gpus(components: list[dict[str, Json]], used: int) -> None:
    """The deployment takes the GPUs that the candidate was evaluated with."""
    total = 0
    for component in components:
        limits = component["podTemplate"]["spec"]["containers"][0].get("resources", {}).get("limits", {})
        total += component["replicas"] * int(limits.get(GPU, 0)) * component.get("multinode", {}).get("nodeCount", 1)
    if total != used:
        raise RenderError(f"used_gpus: it is {used}, but replicas and layouts take {total}")


def _number(value: float) -> str:
    return repr(canonical(value))
