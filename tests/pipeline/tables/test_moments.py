"""When so many groups lost members at the same moment that it is no coincidence."""

from __future__ import annotations

from muster.pipeline.episodes.moments import Heard, Losses

_NOON = 1_700_000_000_000
_S = 1000


def _losses(*groups: list[int | None]) -> Losses:
    """Groups of members. A lost member was there for some seconds, and the others are always there."""
    found = Losses()
    for heard in groups:
        times = [None if second is None else _NOON + second * _S for second in heard]
        found.add([Heard(None, 0, None) if ms is None else Heard(ms, ms - 9 * _S, ms + 9 * _S) for ms in times])
    return found


def _tells(found: Losses, second: int) -> bool:
    return any(from_ms <= _NOON + second * _S < until_ms for from_ms, until_ms in found.found())


def test_members_of_three_groups_lost_together_are_trouble() -> None:
    assert _tells(_losses([300, 304, None], [305, 301], [309]), 305)


def test_one_member_of_each_group_was_perhaps_on_one_host() -> None:
    """The others went on, so the coordinator was there."""
    assert not _losses([300, None], [305, None], [309, None]).found()
    assert _losses([300, 301, None], [305], [309]).found()


def test_members_of_two_groups_lost_together_are_chance() -> None:
    assert not _losses([300, 302], [305, 301], [900]).found()


def test_losses_of_three_of_twenty_groups_are_chance() -> None:
    assert not _losses([300], [305], [309], *([None] for _ in range(17))).found()


def test_a_group_that_always_loses_members_proves_no_trouble() -> None:
    loop: list[int | None] = list(range(0, 600, 30))
    assert not _losses(loop, [305], [309]).found()
    assert _tells(_losses(loop, [300], [305], [309]), 305)


def test_repeated_trouble_is_reported_each_time() -> None:
    often: list[int | None] = [0, 120, 240, 360, 480]
    found = _losses(*(often for _ in range(8)))
    assert all(_tells(found, second) for second in (0, 120, 240, 360, 480))
