"""When a window must not be applied."""

from attrs import evolve

from dgdr_retune.windows import Completeness
from dgdr_retune.windows._completeness import digest, fingerprint

NAMES = ("chat-frontend-0", "chat-frontend-1", "chat-frontend-10")
FRESH = Completeness(
    rows=500,
    frontends=3,
    fingerprints=tuple(sorted(map(fingerprint, NAMES))),
    gap_count=2,
    gap_ms=31_000,
    gaps=(),
    names=NAMES,
    digest=digest(NAMES),
)
REUSED = evolve(FRESH, gaps=None, names=None, digest=None)
UNKNOWN = evolve(REUSED, fingerprints=None)
DIGESTED = evolve(UNKNOWN, digest=FRESH.digest)


def reasons(completeness: Completeness, **asked: object) -> list[str]:
    return [shortfall.reason for shortfall in completeness.shortfalls(**asked)]


def test_a_window_with_all_its_frontends_and_rows_may_be_applied() -> None:
    for completeness in (FRESH, REUSED):
        assert reasons(completeness, expected=NAMES, minimum_rows=500) == []
        assert reasons(completeness, expected=NAMES[:1]) == []


def test_a_window_below_its_minimum_may_not() -> None:
    (shortfall,) = FRESH.shortfalls(minimum_rows=501)
    assert shortfall.reason == "below_minimum_rows"
    assert "500 rows" in shortfall.message
    assert "501" in shortfall.message


def test_a_window_that_misses_a_frontend_may_not_and_names_it() -> None:
    for completeness in (FRESH, REUSED):
        found = completeness.shortfalls(expected=["chat-frontend-2", *NAMES, "chat-frontend-3"])
        assert [shortfall.reason for shortfall in found] == ["missing_frontend", "missing_frontend"]
        assert "chat-frontend-2" in found[0].message
        assert "chat-frontend-3" in found[1].message


def test_a_window_that_does_not_say_which_frontends_recorded_may_not_if_they_are_expected() -> None:
    assert reasons(UNKNOWN, expected=NAMES) == ["frontends_unknown"]
    assert reasons(UNKNOWN) == []
    assert reasons(evolve(UNKNOWN, rows=1), expected=NAMES, minimum_rows=2) == [
        "below_minimum_rows",
        "frontends_unknown",
    ]


def test_a_window_that_has_a_digest_may_be_applied_if_exactly_its_frontends_are_expected() -> None:
    assert reasons(DIGESTED, expected=[*reversed(NAMES), *NAMES]) == []
    assert reasons(DIGESTED, expected=NAMES, minimum_rows=501) == ["below_minimum_rows"]
    for others in (NAMES[:2], [*NAMES, "chat-frontend-2"], ["chat-frontend-0chat-frontend-1", NAMES[2]]):
        assert reasons(DIGESTED, expected=others) == ["frontends_unknown"]


def test_many_frontends_are_told_apart_by_their_fingerprints() -> None:
    names = [f"chat-frontend-{number}" for number in range(300)]
    assert len(set(map(fingerprint, names))) == 300
    assert {len(fingerprint(name)) for name in names} == {4}
