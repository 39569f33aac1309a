"""Values as Go prints them, for messages that are the same here and on a real server."""

import json
from decimal import Decimal
from typing import Final

from dgdr_retune.testing._json import Json

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
_FIRST_EXPONENT: Final = 6  # where %v turns to an exponent
_LAST_FRACTION: Final = -4


def shown(value: Json) -> str:
    """A value in the text of a field's fault."""
    match value:
        case str():
            return _quoted(value)
        case float():
            return _float(value)
        case bool() | int():
            return json.dumps(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _quoted(text: str) -> str:
    """As ``%q``."""
    return '"' + "".join(_ESCAPES.get(each) or _escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character.isprintable():
        return character
    if code < 0x80:  # noqa: PLR2004 - the end of ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the end of the first plane


def _float(value: float) -> str:
    """As ``%v``: the fewest digits that give the number back."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    minus = "-" if sign else ""
    if _LAST_FRACTION <= power < _FIRST_EXPONENT:
        return f"{minus}{abs(Decimal(repr(value)).normalize()):f}"
    text = "".join(map(str, digits))
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{power:+03d}"
