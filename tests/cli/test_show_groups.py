"""`muster groups describe` of consumer groups: current assignments, targets, and which member waits for which."""

from __future__ import annotations

import pytest

from muster.cli import output
from muster.cli.groups import show_groups
from muster.coordinator.http.described_groups import Description, Member, pending_revocations

Partitions = dict[str, list[int]]


def member(name: str, epoch: int, has: Partitions, shall: Partitions) -> Member:
    return Member(name, None, name, "/127.0.0.1", has, "consumer", epoch, shall)


def group(epoch: int, assignment_epoch: int, *members: Member) -> Description:
    return Description("g", "consumer", "Reconciling", "consumer", "uniform", epoch, assignment_epoch, [*members])


def test_a_group_at_its_target_has_no_pending_revocations() -> None:
    has = {"t": [0, 1]}
    assert pending_revocations(group(3, 3, member("a", 3, has, has))) == []


def test_pending_revocations_name_the_waiting_and_the_owning_member() -> None:
    found = group(
        4,
        4,
        member("a", 3, {"t": [0, 1, 2, 3]}, {"t": [0, 1]}),
        member("b", 4, {}, {"t": [2, 3], "u": [0]}),
        member("c", -2, {"u": [1]}, {}),
        member("d", 4, {}, {"u": [1]}),
    )
    assert pending_revocations(found) == [
        "b gets u:0 with its next heartbeat",
        "b waits for t:2-3 of a, which is to give it up",
        "c says that it will be back: it keeps u:1 until its session is over",
        "d waits for u:1 of c, which is away",
    ]


def test_a_task_that_nobody_has_may_be_one_that_a_member_of_an_older_epoch_gives_up() -> None:
    one, two = member("a", 3, {"0": [0]}, {"0": [0]}), member("b", 4, {}, {"0": [1]})
    streams = group(4, 4, one, two)._replace(type="streams")
    assert pending_revocations(streams) == ["b waits for 0:1: a may still have it"]
    three = member("c", 3, {"0": [2]}, {"0": [2]})
    assert pending_revocations(streams._replace(members=[one, two, three])) == [
        "b waits for 0:1: a or c may still have it"
    ]
    later = streams._replace(members=[one._replace(epoch=4), two])
    assert pending_revocations(later) == ["b gets 0:1 with its next heartbeat"]


def test_a_missing_target_assignment_is_reported() -> None:
    found = group(5, 4, member("a", 4, {"t": [0]}, {"t": [0]}))
    (reported,) = pending_revocations(found)
    assert reported.startswith(
        "the target assignment of epoch 5 is not computed yet: the next ConsumerGroupHeartbeat starts"
    )


def test_a_classic_group_has_no_targets() -> None:
    classic = Member("a", None, "a", "/127.0.0.1", {"t": [0]})
    assert pending_revocations(Description("g", "classic", "Stable", "consumer", "range", None, None, [classic])) == []


LONG = Description(
    "g", "classic", "Stable", "consumer", "range", None, None,
    [Member(f"payments-service-{at}-8b96b554-5e4f-4b04-8a20-47aa651fc3f{at}", None, f"payments-service-{at}",
            "/10.0.0.1", {"payments": [at]}) for at in range(3)],
)  # fmt: skip
VERDICT = "payments-service-2 crash-loops: 23 rebalances, 8.2 s of 6 partitions unread since 18:22; 2 more"


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: int | None) -> list[str]:
    monkeypatch.setattr(show_groups, "terminal_width", lambda: wide)
    monkeypatch.setattr(output, "terminal_width", lambda: wide)
    show_groups.print_group(LONG, VERDICT)
    return capsys.readouterr().out.splitlines()


def test_group_describe_prints_the_verdict_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, None)
    assert lines[0].startswith("group g: Stable, 3 members")
    assert lines[1] == f"verdict: {VERDICT}"
    assert lines[2].split() == ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"]
    assert lines[3].startswith("payments-service-0-8b96b554-5e4f-4b04-8a20-47aa651fc3f0 "), "whole ids in a pipe"


@pytest.mark.parametrize("wide", [90, 120])
def test_group_describe_fits_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    lines = printed(capsys, monkeypatch, wide)
    assert max(map(len, lines)) <= wide
    reported = " ".join(" ".join(lines).split())
    assert f"verdict: {VERDICT} MEMBER" in reported
    assert ("payments-service-0-8b96b554… " in reported) == (wide == 90), "ids are cut only where there is no room"
