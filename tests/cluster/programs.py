"""The command lines and configuration files of the programs that are a cluster."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen
from tests.cluster.inside import API_PORT, NODE_ADDRESS
from tests.controlplane.certificates import Certificates

STORE = "http://127.0.0.1:2379"
DATA = Path("/run/cluster")  # as the node sees it: in memory, and short, for sockets have paths of 107 characters
PAUSE_IMAGE = "dgdr-retune.invalid/pause:test"
CNI_PROGRAMS = "/usr/lib/cni"  # of Debian's containernetworking-plugins

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}

NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "198.51.100.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}

CONTAINERD = """\
version = 3
root = "{data}/containerd"
state = "{data}/containerd-state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.tracing"]

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{data}/opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni_programs}"]
conf_dir = "{directory}/cni"

[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
"""


@frozen
class Program:
    """One program: its name (of its log), its command line, and what its environment has beside the usual."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]


def write_kubeconfig(path: Path, url: str, certificates: Certificates, user: dict[str, Any] | None = None) -> None:
    """A kubeconfig for ``url``; of the administrator unless ``user`` says otherwise."""
    administrator = {
        "client-certificate": str(certificates.administrator),
        "client-key": str(certificates.administrator_key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": url, "certificate-authority": str(certificates.authority)}}
        ],
        "users": [{"name": "test", "user": administrator if user is None else user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(document))  # JSON is YAML
    path.chmod(0o600)


def programs(found: Path, directory: Path, certificates: Certificates, control_group: str) -> Iterator[Program]:
    """What runs in a cluster whose programs are in ``found``; configuration files are written on the way."""
    kubeconfig = directory / "inside.kubeconfig"
    write_kubeconfig(kubeconfig, f"https://127.0.0.1:{API_PORT}", certificates)
    yield from _control_plane(found, directory, certificates, kubeconfig)
    socket = DATA / "containerd.sock"
    yield _containerd(found, directory, socket)
    yield _kubelet(found, directory, socket, kubeconfig, control_group)


def _control_plane(found: Path, directory: Path, certificates: Certificates, kubeconfig: Path) -> Iterator[Program]:
    peer = "http://127.0.0.1:2380"
    yield Program(
        "etcd",
        (
            str(found / "etcd"),
            f"--data-dir={DATA / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={STORE}",
            f"--advertise-client-urls={STORE}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ),
        {},
    )
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    yield Program(
        "kube-apiserver",
        (
            str(found / "kube-apiserver"),
            f"--etcd-servers={STORE}",
            "--bind-address=0.0.0.0",
            f"--secure-port={API_PORT}",
            f"--advertise-address={NODE_ADDRESS}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificates.server}",
            f"--tls-private-key-file={certificates.server_key}",
            f"--client-ca-file={certificates.authority}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            f"--service-account-key-file={certificates.service_accounts}",
            f"--service-account-signing-key-file={certificates.service_accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=203.0.113.0/24",
            "--kubelet-preferred-address-types=Hostname",
            "--enable-aggregator-routing=true",  # webhooks behind a Service are reached without kube-proxy
            f"--audit-policy-file={policy}",
            f"--audit-log-path={directory / 'logs' / 'audit.log'}",
        ),
        {},
    )
    for name, port, more in (
        (
            "kube-controller-manager",
            10257,
            (
                f"--service-account-private-key-file={certificates.service_accounts}",
                f"--root-ca-file={certificates.authority}",
                "--use-service-account-credentials=true",
            ),
        ),
        ("kube-scheduler", 10259, ()),
    ):
        yield Program(
            name,
            (
                str(found / name),
                f"--kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                "--leader-elect=false",
                f"--cert-dir={DATA / name}",
                "--authentication-skip-lookup=true",
                *more,
            ),
            {},
        )


def _containerd(found: Path, directory: Path, socket: Path) -> Program:
    network = directory / "cni"
    network.mkdir()
    ipam = NETWORK["plugins"][0]["ipam"] | {"dataDir": str(DATA / "addresses")}
    plugins = [NETWORK["plugins"][0] | {"ipam": ipam}]
    (network / "pods.conflist").write_text(json.dumps(NETWORK | {"plugins": plugins}))
    configuration = directory / "containerd.toml"
    configuration.write_text(
        CONTAINERD.format(directory=directory, data=DATA, socket=socket, pause=PAUSE_IMAGE, cni_programs=CNI_PROGRAMS)
    )
    path = f"{found}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # for the shim and runc
    return Program("containerd", (str(found / "containerd"), f"--config={configuration}"), {"PATH": path})


def _kubelet(found: Path, directory: Path, socket: Path, kubeconfig: Path, control_group: str) -> Program:
    configuration = directory / "kubelet.json"
    configuration.write_text(
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "failCgroupV1": False,
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{control_group}",
                "containerRuntimeEndpoint": f"unix://{socket}",
                "address": "127.0.0.1",
                "healthzBindAddress": "127.0.0.1",
                "readOnlyPort": 0,
                "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                "authorization": {"mode": "AlwaysAllow"},
                "makeIPTablesUtilChains": False,
                "failSwapOn": False,
                "enforceNodeAllocatable": [],
                "podLogsDir": str(directory / "logs" / "pods"),
                "evictionHard": {"memory.available": "50Mi"},
                "resolvConf": "/dev/null",
                "serializeImagePulls": False,
                "imageGCHighThresholdPercent": 100,
            }
        )
    )
    return Program(
        "kubelet",
        (
            str(found / "kubelet"),
            f"--config={configuration}",
            f"--kubeconfig={kubeconfig}",
            "--hostname-override=localhost",
            f"--root-dir={DATA / 'kubelet'}",
            f"--cert-dir={DATA / 'kubelet' / 'pki'}",
            f"--volume-plugin-dir={DATA / 'volume-plugins'}",
        ),
        {"AWS_EC2_METADATA_DISABLED": "true"},
    )
