"""XXH3 and the hashes of topics: the values are those of the library that Kafka 4.3 has, for the bytes 3, 10, 17 …"""

from __future__ import annotations

import pytest
from xxhash import xxh3_64_intdigest

from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.topic_hashes import MAX_WITH_RACKS, NO_HASH, has_same_hash, hash_of_topics

VALUES = {
    0: 3244421341483603138,
    1: 1433843135270481901,
    2: 2058273368586827884,
    3: 12180141160879835164,
    4: 7895465118229274323,
    8: 6941064856527638883,
    9: 18374517719163151272,
    16: 13314990914799711621,
    17: 8163341949877205007,
    32: 1873302701886544469,
    33: 4486878507168070088,
    64: 2917965298538373825,
    65: 9408609914592003654,
    96: 17331232145433315139,
    97: 2137665177113230204,
    128: 7440608504995537343,
    129: 14295761343243267012,
    160: 15496299788031539331,
    240: 7229805477010515663,
    241: 10082113959289486871,
    256: 4339360625268998362,
    257: 3039943168460295846,
    512: 17690705279202729245,
    1000: 7804479483783519874,
    1024: 11205349619999208113,
    1025: 9253807012321506678,
    1088: 3424848841118183642,
    2048: 12386592778227166929,
    4097: 11898137487726195576,
}


@pytest.mark.parametrize("length", VALUES)
def test_the_hash_function_is_xxh3(length: int) -> None:
    assert xxh3_64_intdigest(bytes((i * 7 + 3) & 255 for i in range(length))) == VALUES[length]


def image(**counts: int) -> TopicsImage:
    return TopicsImage({name: TopicImage(name, name.encode() * 16, count) for name, count in counts.items()}, 1)


def test_unknown_topics_do_not_change_the_hash() -> None:
    assert hash_of_topics(["x", "y"], image(t=3)) == NO_HASH
    assert hash_of_topics(["x", "t"], image(t=3)) == hash_of_topics(["t"], image(t=3, u=1)) != NO_HASH


def test_only_the_order_of_names_does_not_change_the_hash() -> None:
    there = image(t=3, u=1)
    assert hash_of_topics(["t", "u"], there) == hash_of_topics(["u", "t"], there)
    assert len({hash_of_topics(["t", "u"], image(t=count, u=1)) for count in range(1, 50)}) == 49
    other = TopicsImage({"t": TopicImage("t", b"x" * 16, 3)}, 1)
    assert hash_of_topics(["t"], other) != hash_of_topics(["t"], there)


def test_the_hash_is_a_signed_number() -> None:
    values = [hash_of_topics(["t"], image(t=count)) for count in range(1, 50)]
    assert all(-(2**63) <= value < 2**63 for value in values)
    assert min(values) < 0 < max(values)


def test_the_rack_of_the_replicas_changes_the_hash() -> None:
    # as a Kafka 4.3 with broker.rack=rack-1 wrote it
    ids = {"t1": "3762aa0a507f417fbfabb8dc4406e551", "t2": "aef33ab31cc7448183a77747b1238fc4"}
    topics = {name: TopicImage(name, bytes.fromhex(ids[name]), count) for name, count in (("t1", 3), ("t2", 1))}
    there = TopicsImage(topics, 1)
    assert hash_of_topics(["t1"], there, "rack-1") == -3538703896867004124
    assert hash_of_topics(["t1", "t2"], there, "rack-1") == -7761269471423165803


def test_racks_of_very_many_partitions_are_not_in_the_hash() -> None:
    most = MAX_WITH_RACKS
    assert hash_of_topics(["t"], image(t=most + 1), "rack") == hash_of_topics(["t"], image(t=most + 1))
    assert hash_of_topics(["t"], image(t=most), "rack") != hash_of_topics(["t"], image(t=most))


def test_a_topic_that_appears_or_disappears_has_another_hash() -> None:
    one = TopicImage("t", b"t" * 16, 3)
    assert has_same_hash(one, TopicImage("t", b"t" * 16, 3))
    assert not has_same_hash(one, TopicImage("t", b"t" * 16, 4))
    assert not has_same_hash(one, None)
    assert not has_same_hash(None, one)
    assert has_same_hash(None, None)
