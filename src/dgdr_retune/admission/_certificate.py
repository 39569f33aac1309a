"""A server certificate that is replaced on disk while the server runs."""

import logging
import ssl
from pathlib import Path

_log = logging.getLogger(__name__)


class Certificate:
    """The certificate in two files, as the newest pair of them that fits together.

    `context` is for a server; each handshake meets the pair that was loaded last. Files that do not fit together (one
    is replaced, the other not yet) are left for the next `load`.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._seen: tuple[tuple[int, int, int], ...] = ()
        self._current: ssl.SSLContext | None = None
        self.context = _server_context()
        self.context.sni_callback = self._present

    @property
    def loaded(self) -> bool:
        """Whether there is a certificate to show."""
        return self._current is not None

    def load(self) -> bool:
        """Load the files if they changed since; returns whether there is a certificate to show."""
        try:
            seen = tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in (f.stat() for f in self._files))
        except OSError as error:
            _log.warning("the webhook's certificate cannot be read: %s", error)
            return self.loaded
        if seen == self._seen:
            return self.loaded
        fresh = _server_context()
        try:
            fresh.load_cert_chain(*self._files)
        except OSError as error:  # ssl.SSLError is one: files that do not fit, or are none
            _log.warning("the webhook's certificate in %s cannot be used: %s", self._files[0], error)
            return self.loaded
        self._seen, self._current = seen, fresh
        _log.info("the webhook's certificate in %s is loaded", self._files[0])
        return True

    def _present(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._current is not None:
            connection.context = self._current


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
