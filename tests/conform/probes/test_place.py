"""Names of probes on a cluster: their coordinators are on the broker that gets the probes."""

from __future__ import annotations

import dataclasses
import uuid

from muster.conform.probes.place import Owner, Place, java_hash
from muster.protocol.hashing import group_partition

PLACE = Place("muster-conform-x", "t", uuid.UUID(int=0), form="rich")


def test_the_hash_finds_the_partition_as_a_broker_does() -> None:
    for number in range(200):
        name = f"muster-conform-{number * 7919}-group"
        assert java_hash(name) % 50 == group_partition(name, 50)
    assert java_hash("polygenelubricants") == group_partition("polygenelubricants", 50) == 0


def test_names_on_one_broker_have_no_ending() -> None:
    assert PLACE.name("join", 3) == "muster-conform-x-join-v3-rich"


def test_names_on_a_cluster_belong_to_the_broker() -> None:
    owner = Owner(2, (1, 2, 3, 1, 2), (3, 3, 2))
    place = dataclasses.replace(PLACE, owner=owner)
    for version in range(20):
        name = place.name("join", version)
        assert owner.group_leaders[group_partition(name, 5)] == 2
        assert owner.transaction_leaders[group_partition(name, 3)] == 2
        assert name.startswith(f"muster-conform-x-join-v{version}-rich")
        assert place.name("join", version) == name


def test_a_target_without_transactions() -> None:
    owner = Owner(1, (1, 2), ())
    assert {owner.owns(f"g{number}") for number in range(8)} == {True, False}
