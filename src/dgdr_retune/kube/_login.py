"""Where the API server is and who we are to it, from a pod's service account or a kubeconfig."""

import asyncio
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import structlog
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
)

from dgdr_retune.kube._errors import KubeError

if TYPE_CHECKING:
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

REREAD_EVERY_S: Final = 50.0
"""How old a token may be that was read from a file; kubelet renews it long before it is invalid."""

_log = structlog.get_logger(__name__)


class ConfigurationError(KubeError):
    """It is not known where the API server is, or who we are: the message says which file or variable to look at."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="NoConfiguration")


class Source(Protocol):
    """Where a configuration is read."""

    async def load(self, *, afresh: bool) -> Configuration:
        """Read it again; ``afresh`` also asks anew for credentials that are said to be valid still.

        Raises:
            ConfigurationError: it cannot be used.
        """
        ...


class InCluster:
    """A pod's service account: its token and its cluster's authority are files, its API server is in the environment.

    Args:
        token: file with the token.
        authority: file with the certificates of the cluster's authority, PEM.
    """

    def __init__(
        self, token: Path = Path(SERVICE_TOKEN_FILENAME), authority: Path = Path(SERVICE_CERT_FILENAME)
    ) -> None:
        self._token = token
        self._authority = authority

    async def load(self, *, afresh: bool) -> Configuration:  # noqa: ARG002 - a file is read afresh either way
        """Read the files."""
        configuration = Configuration()
        try:
            load_incluster_config(  # type: ignore[no-untyped-call]  # its arguments are not annotated
                configuration,
                try_refresh_token=False,
                token_filename=str(self._token),
                cert_filename=str(self._authority),
            )
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigurationError(f"the pod's service account cannot be used: {error} ({self._token})") from error
        return configuration


class Kubeconfig:
    """A kubeconfig, with whatever it says about tokens, certificates and plugins.

    Args:
        path: None for ``$KUBECONFIG`` or ``~/.kube/config``.
        context: None for the current one.
    """

    def __init__(self, path: Path | None = None, context: str | None = None) -> None:
        self._path = path
        self._context = context
        self._loader: KubeConfigLoader | None = None

    async def load(self, *, afresh: bool) -> Configuration:
        """Read the file of a token, and ask a plugin whose credentials have run out; afresh, everything."""
        configuration = Configuration()
        try:
            if self._loader is None or afresh:
                path = None if self._path is None else str(self._path)
                self._loader = await load_kube_config(path, self._context, configuration)
            else:
                await self._loader.load_and_set(configuration)
        except (ConfigException, OSError, ValueError, TypeError, AssertionError, yaml.YAMLError) as error:
            where = self._path or "$KUBECONFIG or ~/.kube/config"
            raise ConfigurationError(f"the kubeconfig cannot be used ({where}): {error}") from error
        return configuration


def found_source() -> Source:
    """The pod's service account inside a cluster, the usual kubeconfig elsewhere."""
    return InCluster() if os.environ.get(SERVICE_HOST_ENV_NAME) else Kubeconfig()


class Login:
    """The ``Authorization`` header, which changes, and the rest, which does not.

    Args:
        source: where both are read.
        configuration: as read first.
    """

    def __init__(self, source: Source, configuration: Configuration) -> None:
        self.configuration = configuration
        self._source = source
        self._header = _authorization(configuration)
        self._read_at = asyncio.get_running_loop().time()
        self._reading = asyncio.Lock()
        self._failing = False

    @classmethod
    async def from_source(cls, source: Source) -> "Login":
        """Read a source for the first time.

        Raises:
            ConfigurationError: it cannot be used.
        """
        return cls(source, await source.load(afresh=True))

    async def authorization(self) -> str:
        """The header's value, not older than :data:`REREAD_EVERY_S`; empty for none (a client certificate)."""
        if self._is_old():
            async with self._reading:
                if self._is_old():
                    await self._read(afresh=False)
        return self._header

    async def authorization_after(self, refused: str) -> str:
        """The header's value after the server has refused one."""
        async with self._reading:
            if self._header == refused:
                await self._read(afresh=True)
        return self._header

    def _is_old(self) -> bool:
        return asyncio.get_running_loop().time() - self._read_at >= REREAD_EVERY_S

    async def _read(self, *, afresh: bool) -> None:
        self._read_at = asyncio.get_running_loop().time()
        try:
            header = _authorization(await self._source.load(afresh=afresh), is_needed=bool(self._header))
        except ConfigurationError as error:
            if not self._failing:
                _log.warning("credentials_not_renewed", error=str(error))
            self._failing = True
            return
        self._header = header
        self._failing = False


def _authorization(configuration: Configuration, *, is_needed: bool = False) -> str:
    header = str(configuration.api_key.get("BearerToken", "")).strip()
    if not header.isprintable() or not header.isascii():
        raise ConfigurationError("the token holds characters that no token has: look at its file")
    if is_needed and not header:
        raise ConfigurationError("the token is gone: look at its file")
    return header


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """How the server is checked, and the client certificate.

    Raises:
        ConfigurationError: a certificate or a key cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"a certificate of the configuration cannot be used: {error}") from error
    # Authorities of many clusters lack extensions that Python asks for since 3.13, and no other client does.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
