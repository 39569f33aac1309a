"""Rows with something wrong, odd or unusual about them."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from window_cases import record

ODD_VALUES: Final[list[Any]] = [
    *(None, True, False, "", "x", "17", [], {}, [1], {"a": 1}),
    *(
        0,
        1,
        -1,
        7,
        64,
        0.0,
        1.0,
        1.5,
        -2.5,
        1e300,
        1e-300,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        10**30,
    ),
]
RAW_VALUES: Final = [
    *("-0", "1e3", "1e400", "-1e400", "1e-400", "0e400", "1E2", "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1"),
    *(
        "9" * 300,
        "9" * 400,
        "1" + "0" * 308 + ".5",
        "0." + "0" * 400 + "1",
        '"\\ud800"',
        '"\\udc00x"',
        '"\\ud83d\\ude00"',
    ),
    *('"\\u0000"', '"\u0085\u2028\u2029"', '"é"', '"a\tb"', "nul", "'a'", "[1,]", "{}", '{"a":1,"a":2}'),
    *("[" * depth + "]" * depth for depth in (119, 120, 121, 126, 200)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (120, 121)),
]
RAW_BYTES: Final = [
    *(
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\xc0\x80"',
        b'"\xf4\x90\x80\x80"',
        b'"\xc3\xa9"',
        b'"\x00"',
        b'"\x7f"',
        b'"\x1f"',
    ),
]
PATHS: Final = [(), ("event",), ("event", "request"), ("event", "request", "replay"), ("event", "request", "worker")]
FIELDS: Final = [
    *("x", "event", "schema", "tool", "payload", "event_source", "agent_context", "kv_hints", "model", "x_request_id"),
    *("finish_reason_metadata", "kv_transfer_estimated_latency_ms", "completion_sequence_hashes", "timestamp"),
]
AROUND: Final = [
    b"\r",
    b" ",
    b"\t ",
    b"\xef\xbb\xbf",
    b"\x0c",
    b"\x0b",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\x00",
    b",",
    b"}",
]
_MARK: Final = "@mark@"

Parsed: TypeAlias = dict[str, Any]


def mutated_rows(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` rows with a description of what was done to them, the same for a seed."""
    chance = random.Random(seed)  # noqa: S311  # not for secrets
    for number in range(count):
        event = record(
            f"{seed}-{number}",
            took_ms=chance.choice([None, 0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 25.5, 1e300]),
            input_length=chance.choice([1, 63, 64, 65, 130, 640]),
        )
        if chance.random() < 0.3:
            shape, parsed, paths = "bare", event, [path[1:] for path in PATHS[1:]]
        else:
            shape, parsed, paths = "enveloped", {"timestamp": 1, "event": event}, PATHS
        path = chance.choice(paths)
        target = parsed
        for name in path:
            target = target[name]
        done, text = chance.choice(MUTATIONS)(chance, parsed, target)
        yield f"{shape}: {'/'.join(path)}: {done}", text.replace(b"\n", b" ")


def _text(parsed: Parsed, instead: bytes = b"") -> bytes:
    text = json.dumps(parsed, separators=(",", ":")).encode()
    return text.replace(f'"{_MARK}"'.encode(), instead)


def _field(chance: random.Random, target: Parsed) -> str:
    return chance.choice([*target, *target, *FIELDS])


def nothing(_chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    return "nothing", _text(parsed)


def odd_value(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    field, value = _field(chance, target), chance.choice(ODD_VALUES)
    target[field] = value
    return f"{field} = {value!r:.40}", _text(parsed)


def raw_value(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    field, value = _field(chance, target), chance.choice([*(raw.encode() for raw in RAW_VALUES), *RAW_BYTES])
    target[field] = _MARK
    return f"{field} = {value!r:.40}", _text(parsed, value)


def odd_hash(chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    hashes = parsed.get("event", parsed)["request"]["replay"]["input_sequence_hashes"]
    value = chance.choice(
        ["0", "-0", "-1", "1.0", "1e3", "18446744073709551615", "18446744073709551616", "true", "null"]
    )
    hashes[chance.randrange(len(hashes))] = _MARK
    return f"a hash = {value}", _text(parsed, value.encode())


def hash_count(chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    hashes = parsed.get("event", parsed)["request"]["replay"]["input_sequence_hashes"]
    if chance.random() < 0.5:
        hashes.append(5)
        return "a hash more", _text(parsed)
    hashes.pop()
    return "a hash less", _text(parsed)


def missing(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    field = chance.choice(list(target))
    del target[field]
    return f"no {field}", _text(parsed)


def repeated(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    field = chance.choice(list(target))
    other = chance.choice(["5", "null", '"x"', "{}", json.dumps(target[field])])
    whole = json.dumps(target, separators=(",", ":"))
    twice = f'{{"{field}":{other},{whole[1:]}' if chance.random() < 0.5 else f'{whole[:-1]},"{field}":{other}}}'
    return f"{field} twice, also {other:.20}", _text(parsed).replace(whole.encode(), twice.encode(), 1)


def escaped(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    field = chance.choice(list(target))
    key = f'"\\u{ord(field[0]):04x}{field[1:]}":'
    text = _text(parsed)
    if chance.random() < 0.3:
        return f"{field} escaped and again", text.replace(b"{", f"{{{key}5,".encode(), 1)
    return f"{field} escaped", text.replace(f'"{field}":'.encode(), key.encode(), 1)


def spaced(chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    separators = chance.choice([(", ", ": "), (" ,", "\t:"), (",\r", ": ")])
    return f"separators {separators}", json.dumps(parsed, separators=separators).encode()


def surrounded(chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    put = chance.choice(AROUND)
    if chance.random() < 0.5:
        return f"begins with {put!r}", put + _text(parsed)
    return f"ends with {put!r}", _text(parsed) + put


def shuffled(chance: random.Random, parsed: Parsed, target: Parsed) -> tuple[str, bytes]:
    items = list(target.items())
    chance.shuffle(items)
    target.clear()
    target.update(items)
    return "fields in another order", _text(parsed)


def damaged(chance: random.Random, parsed: Parsed, _target: Parsed) -> tuple[str, bytes]:
    text = bytearray(_text(parsed))
    at = chance.randrange(1, len(text))
    if chance.random() < 0.3:
        del text[at:]
        return f"cut at {at}", bytes(text)
    text[at] = chance.randrange(256)
    return f"byte {at} = {text[at]}", bytes(text)


MUTATIONS: Final = [
    *(nothing, odd_value, odd_value, odd_value, raw_value, raw_value, raw_value, odd_hash, hash_count, missing),
    *(repeated, escaped, spaced, surrounded, shuffled, damaged),
]
