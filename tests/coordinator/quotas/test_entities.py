"""Entities of quotas, and valid quotas. Tests of the API have Kafka's answers to some two hundred requests."""

from __future__ import annotations

import pytest

from muster.coordinator.quotas.entities import (
    MAX_HASHED,
    EntityFilter,
    entity_of,
    fault_of_entity,
    fault_of_quota,
    in_javas_order,
    is_same,
    shown,
)


def test_quota_entities_have_the_order_of_javas_hash_maps() -> None:
    # jshell: new HashMap<>(4) of these, its keySet()
    assert in_javas_order(["user", "client-id"], 2) == ["client-id", "user"]
    assert in_javas_order(["ip", "user", "client-id"], 3) == ["client-id", "user", "ip"]
    assert in_javas_order(["producer_byte_rate", "nope"], 2) == ["nope", "producer_byte_rate"]
    assert in_javas_order([], 0) == []


class _Unread(str):
    """A long text that nobody reads to its end."""

    def isascii(self) -> bool:
        raise AssertionError("each character costs time")


def test_long_texts_are_not_hashed_for_their_order() -> None:
    # 3,000 entities of one type with 5,000 characters once blocked the event loop for half a second
    long = _Unread("z" * (MAX_HASHED + 1))
    assert in_javas_order(["user", long, "client-id"], 3) == [long, "client-id", "user"]


def test_an_entity_is_shown_as_java_shows_it() -> None:
    assert shown({"user": None, "client-id": "c"}) == "ClientQuotaEntity(entries={client-id=c, user=null})"


def test_an_entity_does_not_depend_on_the_order_of_its_parts() -> None:
    assert entity_of({"user": "a", "client-id": None}) == entity_of({"client-id": None, "user": "a"})


@pytest.mark.parametrize("names", [{"user": None}, {"client-id": "c", "user": "u"}, {"ip": None}, {"ip": "::1"}])
def test_valid_quota_entities_are_accepted(names: dict[str, str | None]) -> None:
    assert fault_of_entity(names) is None


def test_each_kind_of_entity_has_its_quotas() -> None:
    assert fault_of_quota({"ip": None}, "producer_byte_rate", 1.0) == "Invalid configuration key producer_byte_rate"
    assert fault_of_quota({"user": None}, "producer_byte_rate", 1.0) is None
    assert fault_of_quota({"ip": None}, "connection_creation_rate", 1.0) is None


def test_equal_quota_values_are_no_change() -> None:
    nan = float("nan")
    assert is_same(nan, nan)
    assert is_same(None, None)
    assert not is_same(None, nan)
    assert not is_same(1.0, nan)


def test_a_strict_filter_names_all_types() -> None:
    alone, pair = entity_of({"user": "a"}), entity_of({"user": "a", "client-id": None})
    for is_strict, found in ((False, [True, True]), (True, [True, False])):
        one = EntityFilter({"user": "a"}, [], is_strict=is_strict)
        assert [one.selects(alone), one.selects(pair)] == found
    assert EntityFilter({}, ["client-id", "user"], is_strict=True).selects(pair)
    assert not EntityFilter({"user": None}, [], is_strict=False).selects(alone)
