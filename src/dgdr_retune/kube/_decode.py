"""JSON from an API server, which stores objects nested deeper than Python can handle."""

import json
import re
from typing import Final

from dgdr_retune.kube._errors import MaybeAppliedError
from dgdr_retune.kube._resource import Json

MAX_DEPTH: Final = 200
TOO_DEEP: Final = f"(nested more than {MAX_DEPTH} levels deep)"
"""Stands in place of what is cut away."""

_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)


def decode(text: bytes) -> Json:
    """The value; what is nested deeper than :data:`MAX_DEPTH` is cut.

    A server goes to 10,000 levels, and one such object of anybody's must not hide all others in a list or a watch, nor
    exhaust the stack of whoever looks at it.

    Raises:
        MaybeAppliedError: it is no JSON; the reason is ``Malformed``.
    """
    try:
        return json.loads(_cut(text) if _may_be_deep(text) else text)
    except (ValueError, RecursionError) as error:
        raise MaybeAppliedError(f"what the API server sent is no JSON: {error}", reason="Malformed") from error


def _may_be_deep(text: bytes) -> bool:
    """False for nearly all that is not; quick, as it does not tell brackets within strings from others."""
    brackets = text.translate(None, delete=_ALL_BUT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


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
