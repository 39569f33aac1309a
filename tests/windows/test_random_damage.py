"""Real segments, damaged at random: what is published follows from the known members and the mutation alone."""

import gzip
import tempfile
import zlib
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from window_cases import BACKENDS, RECORDED, Unsynced, members_of, order_of, published_rows, stretches

from dgdr_retune.windows import CutError, CutRequest, Place, Window, cut
from dgdr_retune.windows._backend import Backend

WINDOW = Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000)
SEGMENTS = [members_of(path.read_bytes()) for path in sorted(RECORDED.glob("*/*.gz"))]
UNTOUCHED = SEGMENTS[0][40:52]
"""Recorded at another frontend: enough of it that the window never counts as mostly corrupt."""

UNTOUCHED_ROWS = {row for member in UNTOUCHED for row in gzip.decompress(member).splitlines(keepends=True)}

Variants: TypeAlias = list[tuple[bytes, bytes]]
"""Each member's bytes, in every form that still is that member, with what it holds."""


def damage(data: st.DataObject, segment: bytes, variants: Variants) -> bytes:
    """One mutation; adds to `variants` what it changed without a consequence."""
    length = len(segment)
    place = st.integers(0, length)
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "zero", "swap", "duplicate"]))
    start = data.draw(place)
    stop = data.draw(st.one_of(st.integers(start, min(length, start + 40)), st.integers(start, length)))
    cut_out = segment[start:stop]
    match kind:
        case "flip" if start < length:
            put = bytes((segment[start] ^ 1 << data.draw(st.integers(0, 7)),))
            return replaced(segment, start, put, variants)
        case "zero":
            return replaced(segment, start, bytes(len(cut_out)), variants)
        case "insert":
            cut_out = b""
            put = data.draw(st.binary(max_size=64) | st.integers(1, 5000).map(bytes) | st.just(b"\x1f\x8b\x08\x04"))
        case "swap":
            middle = data.draw(st.integers(0, len(cut_out)))
            put = cut_out[middle:] + cut_out[:middle]
        case "duplicate":
            put = 2 * cut_out
        case _:
            put = b""
    return segment[:start] + put + segment[start + len(cut_out) :]


def replaced(segment: bytes, start: int, put: bytes, variants: Variants) -> bytes:
    result = segment[:start] + put + segment[start + len(put) :]
    for known, content in list(variants):
        at = segment.find(known)
        while at >= 0:
            changed = result[at : at + len(known)]
            if changed != known and holds(changed, content):
                variants.append((changed, content))
            at = segment.find(known, at + 1)
    return result


def holds(member: bytes, content: bytes) -> bool:
    # The standard library does not look at reserved flags and header CRCs; ours takes no such member.
    if member[3] & 0xE2:
        return False
    try:
        return gzip.decompress(member) == content
    except (OSError, EOFError, zlib.error):
        return False


@st.composite
def stretches_of_a_segment(draw: st.DrawFn) -> list[bytes]:
    members = draw(st.sampled_from(SEGMENTS))
    start = draw(st.integers(0, len(members) - 1))
    return members[start : start + draw(st.integers(1, 3))]


def check(data: st.DataObject, members: list[bytes], backend: Backend, *, mutations: int) -> None:
    variants: Variants = [(member, gzip.decompress(member)) for member in members]
    segment = b"".join(members)
    for _ in range(data.draw(st.integers(1, mutations))):
        segment = damage(data, segment, variants)
    assert stretches(segment, Backend.zlib()) == stretches(segment, Backend.fastest())
    intact = [known for known, _ in variants if known in segment]
    survivors = {content for known, content in variants if known in intact}
    expected = UNTOUCHED_ROWS.union(*(content.splitlines(keepends=True) for content in survivors))
    with tempfile.TemporaryDirectory() as scratch:
        for pod, content in (("frontend-a", segment), ("frontend-b", b"".join(UNTOUCHED))):
            (Path(scratch) / "segments" / pod).mkdir(parents=True)
            (Path(scratch) / "segments" / pod / "trace.000000.jsonl.gz").write_bytes(content)
        request = CutRequest(
            segments=Place(scratch, "segments"),
            windows=Place(scratch),
            name="chat",
            window=WINDOW,
            mtime_margin_s=1e9,
        )
        try:
            done = cut(request, backend=backend, filesystem=Unsynced())
        except CutError as error:
            if error.reason != "trace_corrupt":
                raise
            intact += UNTOUCHED
            share = sum(map(len, intact)) / (len(segment) + sum(map(len, UNTOUCHED)))
            assert min(share, len(intact) / (len(members) + len(UNTOUCHED))) < 0.75, "most of it was there"
            return
        assert published_rows(done) == sorted(expected, key=order_of)
        assert done.counts.bytes == len(segment) + sum(map(len, UNTOUCHED))


@pytest.mark.parametrize("backend", BACKENDS)
@given(data=st.data(), members=stretches_of_a_segment())
@settings(
    deadline=None,
    max_examples=1100,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow, HealthCheck.large_base_example],
)
def test_no_damage_loses_or_changes_a_row_of_an_intact_member(
    backend: Backend, data: st.DataObject, members: list[bytes]
) -> None:
    check(data, members, backend, mutations=3)


@given(data=st.data(), members=st.sampled_from(SEGMENTS))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_nor_does_it_in_a_whole_segment(data: st.DataObject, members: list[bytes]) -> None:
    check(data, members, Backend.fastest(), mutations=6)
