"""JSON from an API server, which stores objects nested deeper than Python parses."""

import json
import re
from typing import Final

from dgdr_retune.kube._errors import MaybeAppliedError
from dgdr_retune.kube._resource import Json

MAX_DEPTH: Final = 200
TOO_DEEP: Final = f"(nested more than {MAX_DEPTH} levels deep)"
"""Stands in place of what is cut away."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def decode(text: bytes) -> Json:
    """The value. What could not be parsed for its depth is cut at :data:`MAX_DEPTH`.

    A server goes to 10,000 levels, and one such object of anybody's must not hide all others in a list or a watch.

    Raises:
        MaybeAppliedError: it is no JSON; the reason is ``Malformed``.
    """
    try:
        try:
            return json.loads(text)
        except RecursionError:
            return json.loads(_cut(text))
    except (ValueError, RecursionError) as error:
        raise MaybeAppliedError(f"what the API server sent is no JSON: {error}", reason="Malformed") from error


def _cut(text: bytes) -> bytes:
    kept: list[bytes] = []
    depth = begin = 0
    for token in _TOKEN.finditer(text):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept += (text[begin : token.start()], json.dumps(TOO_DEEP).encode())
        elif token[0] in (b"]", b"}"):
            if depth == MAX_DEPTH + 1:
                begin = token.end()
            depth -= 1
    return b"".join([*kept, text[begin:]])
