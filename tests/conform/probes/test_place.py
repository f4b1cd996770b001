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
    """Leaders that take turns, with another beginning: no name has both of its coordinators on one broker."""
    owner = Owner(2, (1, 2, 3), (2, 3, 1))
    place = dataclasses.replace(PLACE, owner=owner)
    for version in range(20):
        name = place.name("join", version)
        assert owner.group_leaders[group_partition(name, 3)] == 2
        assert name.startswith(f"muster-conform-x-join-v{version}-rich")
        assert place.name("join", version) == name
        transactional_id = place.transactional_id("end", version)
        assert owner.transaction_leaders[group_partition(transactional_id, 3)] == 2
        assert transactional_id.startswith(f"muster-conform-x-end-v{version}-rich")


def test_a_target_without_transactions() -> None:
    owner = Owner(1, (1, 2), ())
    assert {owner.coordinates_group(f"g{number}") for number in range(8)} == {True, False}
    assert {owner.coordinates_transactions(f"t{number}") for number in range(8)} == {True}
