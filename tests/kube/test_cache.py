"""The cache: identity by UID, indexes, our own writes, and lists that show what no watch has shown."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.kube.scripted import thing

from dgdr_retune.kube import Cache, Json, Listing
from dgdr_retune.kube._cache import Change

Object = dict[str, Json]
NAMES = st.sampled_from("abc")


def of_owner(value: Object) -> list[str]:
    return [value["metadata"]["labels"]["owner"]] if "labels" in value["metadata"] else []


def owned(name: str, version: int, owner: str, **more: Any) -> Object:
    return thing(name, version, labels={"owner": owner}, **more)


def listing(version: int, *items: Object) -> Listing:
    return Listing(items, str(version))


def cache_of(*items: Object, version: int = 100) -> Cache:
    cache = Cache(indexes={"owner": of_owner})
    cache.listed(listing(version, *items))
    return cache


def test_an_object_is_found_by_name_by_uid_and_in_order() -> None:
    cache = cache_of(thing("b", 1), thing("a", 2))
    assert cache.get("default", "b") == thing("b", 1)
    assert cache.by_uid("uid-a") == thing("a", 2)
    assert cache.all() == (thing("a", 2), thing("b", 1))
    assert (cache.get("other", "a"), cache.by_uid("x"), len(cache)) == (None, None, 2)


def test_an_index_follows_changes_and_deletions() -> None:
    cache = cache_of(owned("a", 1, "x"), owned("b", 2, "x"), thing("c", 3))
    assert cache.select("owner", "x") == (owned("a", 1, "x"), owned("b", 2, "x"))
    cache.happened("MODIFIED", owned("a", 101, "y"))
    cache.happened("DELETED", owned("b", 102, "x"))
    assert cache.select("owner", "x") == ()
    assert cache.select("owner", "y") == (owned("a", 101, "y"),)
    cache.happened("MODIFIED", thing("a", 103))
    assert cache.select("owner", "y") == ()
    assert cache._indexes == {"owner": {}}, "keys without objects would pile up"


def test_only_the_projection_is_kept_and_indexed() -> None:
    cache = Cache(
        project=lambda value: {"only": value["metadata"]["name"]}, indexes={"only": lambda kept: [kept["only"]]}
    )
    changes = cache.listed(listing(5, thing("a", 2)))
    assert changes == [(None, {"only": "a"})]
    assert cache.get("default", "a") == cache.by_uid("uid-a") == {"only": "a"}
    assert cache.select("only", "a") == ({"only": "a"},)


def test_who_set_which_field_is_not_kept() -> None:
    cache = cache_of(thing("a", 1, managedFields=[{"manager": "kubectl"}]))
    assert cache.get("default", "a") == thing("a", 1)


def test_an_object_that_was_made_again_under_its_name_is_another_one() -> None:
    cache = cache_of(thing("a", 1, uid="first"))
    assert cache.happened("DELETED", thing("a", 101, uid="first")) == [(thing("a", 1, uid="first"), None)]
    assert cache.happened("ADDED", thing("a", 102, uid="second")) == [(None, thing("a", 102, uid="second"))]
    assert cache.by_uid("first") is None


def test_a_list_tells_of_an_object_that_was_deleted_and_made_again_meanwhile() -> None:
    cache = cache_of(thing("a", 1, uid="first"))
    assert cache.listed(listing(200, thing("a", 150, uid="second"))) == [
        (thing("a", 1, uid="first"), None),
        (None, thing("a", 150, uid="second")),
    ]


def test_of_two_incarnations_the_newer_has_the_name() -> None:
    cache = cache_of(thing("a", 1, uid="first"))
    cache.wrote(thing("a", 110, uid="second"))
    assert cache.get("default", "a") == thing("a", 110, uid="second")
    assert cache.by_uid("first") == thing("a", 1, uid="first")


def test_a_list_reports_deletions_changes_and_news_and_nothing_else() -> None:
    cache = cache_of(thing("same", 1), thing("gone", 2), thing("changed", 3))
    assert cache.listed(listing(200, thing("same", 1), thing("changed", 150), thing("new", 151))) == [
        (thing("gone", 2), None),
        (thing("changed", 3), thing("changed", 150)),
        (None, thing("new", 151)),
    ]


def test_an_event_that_comes_twice_changes_nothing_and_an_older_one_less_than_nothing() -> None:
    cache = cache_of(thing("a", 1))
    cache.happened("MODIFIED", thing("a", 102))
    assert cache.happened("MODIFIED", thing("a", 102)) == [(thing("a", 102), thing("a", 102))]
    assert cache.happened("MODIFIED", thing("a", 101)) == []
    assert cache.happened("DELETED", thing("a", 101)) == []
    assert cache.get("default", "a") == thing("a", 102)


def test_the_deletion_of_an_object_that_was_never_shown_is_reported() -> None:
    assert cache_of().happened("DELETED", thing("a", 101)) == [(thing("a", 101), None)]


def test_our_own_write_is_seen_at_once_and_is_behind_until_the_watch_has_shown_it() -> None:
    cache = cache_of(thing("a", 1))
    assert not cache.is_behind("default", "a")
    cache.wrote(thing("a", 110))
    assert cache.get("default", "a") == thing("a", 110)
    assert cache.is_behind("default", "a")
    assert cache.happened("MODIFIED", thing("a", 105)) == [], "what came before our write is no news"
    assert cache.is_behind("default", "a")
    cache.happened("MODIFIED", thing("a", 110))
    assert not cache.is_behind("default", "a")


def test_any_sign_that_the_watch_has_come_as_far_ends_being_behind() -> None:
    for kind, value in (("BOOKMARK", {"metadata": {"resourceVersion": "110"}}), ("ADDED", thing("b", 111))):
        cache = cache_of(thing("a", 1))
        cache.wrote(thing("a", 110))
        cache.happened(kind, value)
        assert not cache.is_behind("default", "a")
    cache = cache_of(thing("a", 1))
    cache.wrote(thing("a", 110))
    cache.listed(listing(110, thing("a", 110)))
    assert not cache.is_behind("default", "a")


def test_our_own_creation_survives_a_list_from_before_it() -> None:
    cache = cache_of()
    cache.wrote(thing("a", 110))
    assert cache.listed(listing(105)) == []
    assert cache.get("default", "a") == thing("a", 110)
    assert cache.is_behind("default", "a")


def test_an_object_of_ours_that_the_watch_passes_by_does_not_stay() -> None:
    """It does not match the watch's selector, or was deleted before a list could show it."""
    cache = cache_of()
    cache.wrote(thing("a", 110))
    assert cache.happened("BOOKMARK", {"metadata": {"resourceVersion": "120"}}) == [(thing("a", 110), None)]
    cache.wrote(thing("a", 130))
    assert cache.listed(listing(140)) == [(thing("a", 130), None)]
    assert len(cache) == 0


def test_an_answer_that_comes_after_the_watch_has_shown_the_deletion_brings_nothing_back() -> None:
    cache = cache_of()
    cache.happened("ADDED", thing("a", 110))
    cache.happened("DELETED", thing("a", 111))
    cache.wrote(thing("a", 110))
    assert cache.get("default", "a") is None
    assert not cache.is_behind("default", "a")


def test_an_answer_to_an_earlier_write_does_not_hide_a_later_one() -> None:
    cache = cache_of(thing("a", 1))
    cache.wrote(thing("a", 112))
    cache.wrote(thing("a", 110))
    assert cache.get("default", "a") == thing("a", 112)
    cache.happened("MODIFIED", thing("a", 110))
    assert cache.is_behind("default", "a")


def test_our_own_deletion_is_behind_until_the_object_is_marked_or_gone() -> None:
    for kind, mark in (("DELETED", {}), ("MODIFIED", {"deletionTimestamp": "2026-01-01T00:00:00Z"})):
        cache = cache_of(thing("a", 1))
        cache.deleted(thing("a", 1))
        assert cache.is_behind("default", "a")
        cache.happened("MODIFIED", thing("a", 105))
        assert cache.is_behind("default", "a"), "this was before the deletion"
        cache.happened(kind, thing("a", 110, **mark))
        assert not cache.is_behind("default", "a")
    cache = cache_of(thing("a", 1))
    cache.deleted(thing("a", 1))
    cache.listed(listing(200))
    assert not cache.is_behind("default", "a")


def test_deleting_what_is_gone_or_marked_is_not_behind() -> None:
    marked = thing("a", 1, deletionTimestamp="2026-01-01T00:00:00Z")
    cache = cache_of(marked)
    cache.deleted(marked)
    cache.deleted(thing("b", 3))
    assert not cache.is_behind("default", "a")
    assert not cache.is_behind("default", "b")


def test_a_list_that_first_shows_our_own_creation_reports_it() -> None:
    cache = cache_of()
    cache.wrote(thing("a", 110))
    assert cache.listed(listing(120, thing("a", 110))) == [(thing("a", 110), thing("a", 110))]
    assert cache.listed(listing(130, thing("a", 110))) == []


def test_a_projection_may_drop_the_mark_of_a_deletion() -> None:
    cache = Cache(project=lambda _: {})
    cache.listed(listing(100, thing("a", 1)))
    cache.deleted(thing("a", 1))
    cache.happened("MODIFIED", thing("a", 110, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not cache.is_behind("default", "a")


def test_a_server_that_was_restored_to_an_earlier_moment_is_believed() -> None:
    cache = cache_of(thing("a", 90), thing("b", 95))
    cache.wrote(thing("c", 110))
    cache.deleted(thing("a", 90))
    cache.listed(listing(50, thing("a", 40)))
    assert cache.all() == (thing("a", 40),)
    assert not cache.is_behind("default", "c")
    assert not cache.is_behind("default", "a"), "its deletion has never been"
    cache.wrote(thing("a", 51))
    assert cache.is_behind("default", "a")


class CacheBesideAServer(RuleBasedStateMachine):
    """Jobs ``a`` to ``c`` are written by others and by us, while the cache is shown the history bit by bit."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = cache_of()
        self.version = 100
        self.present: dict[str, Object] = {}
        self.events: list[tuple[str, Object]] = []
        self.late: list[Object] = []
        self.ours: dict[str, int] = {}
        self.reported: dict[str, Object] = {}

    def _write(self, name: str) -> Object:
        self.version += 1
        old = self.present.get(name)
        uid = f"{name}-{self.version}" if old is None else old["metadata"]["uid"]
        self.present[name] = owned(name, self.version, str(self.version % 2), uid=uid)
        self.events.append(("ADDED" if old is None else "MODIFIED", self.present[name]))
        return self.present[name]

    def _delete(self, name: str) -> Object | None:
        gone = self.present.pop(name, None)
        if gone is not None:
            self.version += 1
            self.ours.pop(gone["metadata"]["uid"], None)
            metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
            self.events.append(("DELETED", {**gone, "metadata": metadata}))
        return gone

    def _take(self, changes: list[Change]) -> None:
        for old, new in changes:
            if new is not None:
                self.reported[new["metadata"]["uid"]] = new
            elif old is not None:
                self.reported.pop(old["metadata"]["uid"], None)

    @rule(name=NAMES)
    def others_write(self, name: str) -> None:
        self._write(name)

    @rule(name=NAMES)
    def others_delete(self, name: str) -> None:
        self._delete(name)

    @rule(name=NAMES, answered_late=st.booleans())
    def we_write(self, name: str, *, answered_late: bool) -> None:
        written = self._write(name)
        if answered_late:
            self.late.append(written)
        else:
            self._learn(written)

    @rule()
    def late_answers_come(self) -> None:
        while self.late:
            self._learn(self.late.pop())

    def _learn(self, written: Object) -> None:
        self.cache.wrote(written)
        version = int(written["metadata"]["resourceVersion"])
        if any(written["metadata"]["uid"] == each["metadata"]["uid"] for each in self.present.values()):
            self.ours[written["metadata"]["uid"]] = max(version, self.ours.get(written["metadata"]["uid"], 0))

    @rule(name=NAMES)
    def we_delete(self, name: str) -> None:
        gone = self._delete(name)
        if gone is not None:
            self.cache.deleted(gone)

    @rule(count=st.integers(1, 5))
    def the_watch_shows_more(self, count: int) -> None:
        shown, self.events = self.events[:count], self.events[count:]
        for kind, value in shown:
            self._take(self.cache.happened(kind, value))

    @rule()
    def a_list_shows_all(self) -> None:
        self.events.clear()
        self._take(self.cache.listed(listing(self.version, *self.present.values())))

    @invariant()
    def what_is_older_than_our_write_is_never_shown(self) -> None:
        for uid, version in self.ours.items():
            found = self.cache.by_uid(uid)
            assert found is not None
            assert int(found["metadata"]["resourceVersion"]) >= version

    @invariant()
    def an_object_that_we_deleted_and_that_is_still_there_is_behind(self) -> None:
        pending = {value["metadata"]["uid"] for kind, value in self.events if kind == "DELETED"}
        for uid in self.cache._deleted:
            assert uid in pending
            assert self.cache.is_behind("default", uid[0])

    def teardown(self) -> None:
        self.late_answers_come()
        self.the_watch_shows_more(len(self.events))
        self._take(self.cache.happened("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))
        expected = tuple(self.present[name] for name in sorted(self.present))
        assert self.cache.all() == expected
        assert self.reported == {value["metadata"]["uid"]: value for value in expected}
        assert not any(self.cache.is_behind("default", name) for name in "abc")
        for owner in "01":
            assert self.cache.select("owner", owner) == tuple(each for each in expected if of_owner(each) == [owner])


TestCacheBesideAServer = CacheBesideAServer.TestCase
TestCacheBesideAServer.settings = settings(deadline=None, max_examples=150, stateful_step_count=30)
