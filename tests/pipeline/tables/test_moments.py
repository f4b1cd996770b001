"""When so many groups lost members at the same moment that it is no coincidence."""

from __future__ import annotations

from muster.pipeline.episodes.moments import Losses

_NOON = 1_700_000_000_000
_S = 1000


def _losses(*groups: list[int | None]) -> Losses:
    found = Losses()
    for heard in groups:
        found.add([None if second is None else _NOON + second * _S for second in heard])
    return found


def _tells(found: Losses, second: int) -> bool:
    return any(from_ms <= _NOON + second * _S < until_ms for from_ms, until_ms in found.found())


def test_members_of_three_groups_lost_together_are_trouble() -> None:
    assert _tells(_losses([300, None], [305, 301], [309]), 305)


def test_members_of_two_groups_lost_together_are_chance() -> None:
    assert not _losses([300, None], [305, 301], [900]).found()


def test_losses_of_three_of_twenty_groups_are_chance() -> None:
    assert not _losses([300], [305], [309], *([None] for _ in range(17))).found()


def test_a_group_that_always_loses_members_proves_no_trouble() -> None:
    loop: list[int | None] = list(range(0, 600, 30))
    assert not _losses(loop, [305], [309]).found()
    assert _tells(_losses(loop, [300, None], [305], [309]), 305)


def test_repeated_trouble_is_reported_each_time() -> None:
    often: list[int | None] = [0, 120, 240, 360, 480]
    found = _losses(*(often for _ in range(8)))
    assert all(_tells(found, second) for second in (0, 120, 240, 360, 480))
