"""The second pass reads each member a fixed number of times, however its rows are spread over the window."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from window_cases import START_MS, Unsynced, member, order_of, published_rows, row

from dgdr_retune.windows import CutError, CutRequest, cut
from dgdr_retune.windows._backend import Backend, Bytes, Decompressor
from dgdr_retune.windows._member import Limits

Make = Callable[..., CutRequest]
Write = Callable[..., Path]

ROWS = 400


class Inflated:
    """Bytes that came out of the standard library's decompressors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size = 0
        self._decompressor = zlib.decompressobj
        monkeypatch.setattr("zlib.decompressobj", self._counted)

    def _counted(self, wbits: int) -> Decompressor:
        inflated, stream = self, self._decompressor(wbits)

        class Counted:
            def __getattr__(self, name: str) -> Any:
                return getattr(stream, name)

            def decompress(self, data: Bytes, *limit: int) -> bytes:
                part = stream.decompress(data, *limit)
                inflated.size += len(part)
                return part

        return Counted()


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> Inflated:
    return Inflated(monkeypatch)


def interleaved(members: int, *, apart_ms: int = 1) -> list[list[bytes]]:
    """The rows of members that take turns in time, every other one with its latest row first."""
    contents = [
        [row(f"{at:04}", received_ms=START_MS + apart_ms * at) for at in range(first, ROWS, members)]
        for first in range(members)
    ]
    return [rows[:: -1 if number % 2 else 1] for number, rows in enumerate(contents, start=1)]


LARGE = Limits(batch=8 << 10, kept=1 << 10)
KEPT = Limits(batch=8 << 10, kept=1 << 20)


@pytest.mark.parametrize(
    ("limits", "inflations"),
    [pytest.param(LARGE, 2, id="too large to keep"), pytest.param(KEPT, 1, id="kept")],
)
@pytest.mark.parametrize(
    ("apart_ms", "reads"), [pytest.param(1, 2, id="told apart by time"), pytest.param(0, 3, id="by their ids")]
)
@pytest.mark.parametrize("members", [1, 2, 5])
def test_what_a_cut_inflates_is_linear_in_what_the_members_hold(  # noqa: PLR0917  # pytest passes them by name
    inflated: Inflated,
    write_segments: Write,
    request_for: Make,
    members: int,
    apart_ms: int,
    reads: int,
    limits: Limits,
    inflations: int,
) -> None:
    contents = interleaved(members, apart_ms=apart_ms)
    write_segments({f"f{number}": [member(*rows)] for number, rows in enumerate(contents)})
    done = cut(request_for(), filesystem=Unsynced(), backend=Backend.zlib(), limits=limits)
    lines = [one + b"\n" for rows in contents for one in rows]
    size = sum(map(len, lines))
    assert size > 20 * limits.batch
    assert inflated.size == inflations * reads * size
    assert published_rows(done) == sorted(lines, key=order_of)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def test_rows_wait_for_their_turn_in_a_file_that_has_no_name(
    temporary: Path, write_segments: Write, request_for: Make
) -> None:
    open_files: set[str] = set()

    class Looking(Unsynced):
        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            assert not list(temporary.iterdir()), "it would outlive a kill"
            targets = [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]
            open_files.update(target for target in targets if target.startswith(str(temporary)))
            return super().write(descriptor, data)

    write_segments({"f": [member(*interleaved(1)[0], level=0)]})
    cut(request_for(), filesystem=Looking(), backend=evolve(Backend.zlib(), compressor=Plain), limits=LARGE)
    assert len(open_files) == 1


class Plain:
    """Writes each batch at once."""

    def compress(self, data: Bytes, /) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


def test_a_few_rows_that_wait_need_no_file(temporary: Path, write_segments: Write, request_for: Make) -> None:
    temporary.rmdir()
    write_segments({"f": [member(*interleaved(1)[0])]})
    assert cut(request_for(), limits=Limits()).counts.rows == ROWS


def test_a_cut_without_room_for_waiting_rows_says_what_to_do(
    temporary: Path, write_segments: Write, request_for: Make
) -> None:
    temporary.rmdir()
    write_segments({"f": [member(*interleaved(1)[0])]})
    with pytest.raises(CutError, match=r"No such file.*TMPDIR") as raised:
        cut(request_for(), limits=LARGE)
    assert raised.value.reason == "storage_failed"
    assert not list(Path(request_for().windows.root, "windows", "chat").iterdir())


@pytest.mark.parametrize("limits", [LARGE, KEPT], ids=["large", "kept"])
@pytest.mark.parametrize("how", ["its last row differs", "its checksum is wrong"])
def test_no_row_is_published_of_a_member_that_is_no_longer_what_it_was(
    write_segments: Write, request_for: Make, how: str, limits: Limits
) -> None:
    (rows,) = interleaved(1)
    content = member(*rows)
    path = write_segments({"f": [content]}) / "f" / "trace.000000.jsonl.gz"
    other = {
        "its last row differs": member(*rows[:-1], rows[-1].replace(b'"request_id":"0', b'"request_id":"9')),
        "its checksum is wrong": content[:-8] + b"????" + content[-4:],
    }[how]
    written: list[bytes] = []

    class Replacing(Unsynced):
        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            path.write_bytes(other)
            written.append(bytes(data))
            return super().write(descriptor, data)

    with pytest.raises(CutError, match="changed while the window was cut") as raised:
        cut(request_for(), filesystem=Replacing(), backend=evolve(Backend.zlib(), compressor=Plain), limits=limits)
    assert raised.value.reason == "segments_changed"
    assert len(written) == 1, "nothing but the header"
