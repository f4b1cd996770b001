from __future__ import annotations

import uuid

from muster.conform.player.story import Body, Reply
from tests.stories.random.comparing import Names, differences, plain

T1, T2 = uuid.uuid4(), uuid.uuid4()


def names(suffix: str = "") -> Names:
    return Names(suffix, {"t1": T1, "t2": T2})


def reply(api: str, body: Body, request: Body | None = None) -> Reply:
    return Reply("A", api, 9, request or {}, body, 0)


def join(member_id: str, *members: str) -> Reply:
    rows = [{"MemberId": one, "GroupInstanceId": None, "Metadata": b""} for one in members]
    return reply("JoinGroup", {"ErrorCode": 0, "MemberId": member_id, "Members": rows}, {"MemberId": ""})


def test_an_id_is_compared_by_the_request_that_created_it() -> None:
    here, there = names(), names()
    one, other = (f"A-{uuid.uuid4()}" for _ in range(2))
    here.learn(3, join(one))
    there.learn(3, join(other))
    assert plain(join(one, one), here) == plain(join(other, other), there)
    there = names()
    there.learn(4, join(other))
    assert differences(plain(join(one), here), plain(join(other), there)) == [
        "MemberId: '<A- of request 3>', expected '<A- of request 4>'"
    ]


def test_an_id_that_was_never_answered_is_compared_by_its_form() -> None:
    assert plain(join(f"A-{uuid.uuid4()}"), names()) == plain(join(f"A-{uuid.uuid4()}"), names())
    assert plain(join(f"A-{uuid.uuid4()}"), names()) != plain(join(f"B-{uuid.uuid4()}"), names())


def test_members_are_compared_in_any_order() -> None:
    assert plain(join("x", "p", "q"), names()) == plain(join("x", "q", "p"), names())
    assert differences(plain(join("x", "p", "q"), names()), plain(join("x", "p"), names())) != []


def test_group_ids_are_compared_without_suffix_and_other_groups_ignored() -> None:
    rows = [{"GroupId": name, "ProtocolType": ""} for name in ("h~1", "other", "g~1")]
    ours = [{"GroupId": name, "ProtocolType": ""} for name in ("g", "h")]
    there = plain(reply("ListGroups", {"ErrorCode": 0, "Groups": ours}), names())
    assert plain(reply("ListGroups", {"ErrorCode": 0, "Groups": rows}), names("~1")) == there
    message = {"Groups": [{"GroupId": "g~1", "ErrorMessage": "Group g~1 not found.", "Members": []}]}
    assert "~1" not in str(plain(reply("DescribeGroups", message), names("~1")))


def test_a_group_that_may_be_hidden_is_not_compared() -> None:
    rows = [{"GroupId": "g", "ProtocolType": ""}, {"GroupId": "h", "ProtocolType": ""}]
    both, one = (reply("ListGroups", {"Groups": some}) for some in (rows, rows[:1]))
    assert plain(both, names(), {"h"}) == plain(one, names(), {"h"})
    assert plain(both, names()) != plain(one, names())


def offsets(*topics: tuple[str, uuid.UUID]) -> list[Body]:
    return [{"Name": name, "TopicId": topic_id, "Partitions": []} for name, topic_id in topics]


def test_the_order_of_offsets_counts_only_for_named_partitions() -> None:
    forth, back = offsets(("", T1), ("", T2)), offsets(("", T2), ("", T1))
    for topics, same in ((None, True), ([{"Name": "t1"}], False)):
        asked = {"Groups": [{"Topics": topics}]}
        one, other = (reply("OffsetFetch", {"Groups": [{"Topics": some}]}, asked) for some in (forth, back))
        assert (plain(one, names()) == plain(other, names())) is same


def test_topics_are_compared_by_name_and_addresses_are_ignored() -> None:
    body = plain(reply("OffsetCommit", {"Topics": offsets(("", T2), ("", uuid.uuid4()))}), names())
    assert [row["TopicId"] for row in body["Topics"]] == ["an id of no topic", "t2"]
    one, other = ({"NodeId": 1, "Host": host, "Port": 9, "ErrorCode": 0} for host in ("a", "b"))
    assert plain(reply("FindCoordinator", one), names()) == plain(reply("FindCoordinator", other), names())


def test_a_difference_names_its_path() -> None:
    assert differences({"a": [{"b": 1}]}, {"a": [{"b": 2}]}) == ["a[0].b: 1, expected 2"]
    assert differences({"a": 1}, {"a": 1}) == []
    assert differences([1], [1, 2]) == [": [1], expected [1, 2]"]


def test_the_offsets_of_all_topics_are_compared_in_versions_with_and_without_topic_ids() -> None:
    asked = {"Groups": [{"GroupId": "g", "Topics": None}]}
    partitions = [{"PartitionIndex": 0, "CommittedOffset": 5}]
    for topics in ([{"Name": "b"}, {"Name": "a"}], [{"TopicId": T2}, {"TopicId": T1}]):
        rows = [{**topic, "Partitions": partitions} for topic in topics]
        one, other = (
            plain(reply("OffsetFetch", {"Groups": [{"GroupId": "g", "Topics": [*order]}]}, asked), names())
            for order in (rows, rows[::-1])
        )
        assert one == other
