"""When a part of the groups gave no sign of life, because one of several brokers was away."""

from __future__ import annotations

from collections.abc import Iterable

from muster.pipeline.episodes.silence import Silence
from muster.pipeline.episodes.silent_part import Part, silent_parts

_NOON = 1_700_000_000_000
Stays = list[tuple[int, int | None]]


def _ms(second: float) -> int:
    return _NOON + round(1000 * second)


def _every(interval_s: float, *spans: tuple[float, float]) -> list[int]:
    return [
        _ms(begin + interval_s * number)
        for begin, end in spans
        for number in range(int((end - begin) / interval_s) + 1)
    ]


def _away(interval_s: float = 5, shift_s: float = 0.0, back_s: float = 0.0, begin_s: float = 0.0) -> list[int]:
    """Signs of a group whose coordinator is away from 600 s to 720 s."""
    return _every(interval_s, (begin_s + shift_s, 600), (720 + back_s, 1_200))


def _there(interval_s: float = 5, shift_s: float = 0.0) -> list[int]:
    return _every(interval_s, (shift_s, 1_200))


def _member(*ends_s: float) -> Stays:
    """One member stays all the time. The others join first, and leave."""
    return [(_ms(-1), None), *((_ms(-1), _ms(end)) for end in ends_s)]


def _parts(*groups: list[int], stays: Iterable[Stays] = (), whole: Iterable[Silence] = ()) -> list[Part]:
    known = list(stays) or [_member() for _ in groups]
    return silent_parts(groups, known, list(whole))


def test_groups_that_fall_silent_and_return_together_had_no_coordinator() -> None:
    found = _parts(_away(), _away(shift_s=1), _away(7, back_s=9), _there(), _there(shift_s=2))
    assert found == [Part(Silence(_ms(600), _ms(720), 3), (0, 1, 2))]


def test_a_group_that_commits_rarely_belongs_to_them_if_it_was_silent_too() -> None:
    rare = _every(50, (0, 590), (740, 1_200))
    assert _parts(_away(), _away(), rare, _there())[0].only == (0, 1, 2)
    assert _parts(_away(), _away(), _every(50, (0, 500), (740, 1_200)), _there())[0].only == (0, 1)


def test_one_group_is_no_part_and_neither_are_all_groups() -> None:
    assert _parts(_away(), _there(), _there()) == []
    assert _parts(_away(), _away(), _away()) == []


def test_groups_that_fall_silent_at_different_moments_have_different_reasons() -> None:
    earlier = _every(5, (0, 560), (720, 1_200))
    assert _parts(_away(), earlier, _there(), _there()) == []
    assert _parts(_away(), _away(back_s=60), _there(), _there()) == []


def test_few_of_many_groups_are_silent_at_one_moment_by_chance() -> None:
    others = [_there() for _ in range(30)]
    assert _parts(_away(), _away(), *others) == []
    assert len(_parts(*(_away() for _ in range(5)), *others)) == 1


def test_a_session_that_ends_meanwhile_shows_a_coordinator() -> None:
    stays = [_member(645), _member(640), _member(), _member()]
    assert _parts(_away(), _away(), _there(), _there(), stays=stays) == []


def test_sessions_that_end_with_the_silence_are_its_losses() -> None:
    stays = [_member(720.1), _member(), _member(), _member()]
    (found,) = _parts(_away(), _away(), _there(), _there(), stays=stays)
    assert found.silence.lost == 1


def test_a_group_without_members_is_not_silent_but_has_nothing_to_commit() -> None:
    stopped: Stays = [(_ms(-1), _ms(600)), (_ms(720), None)]
    assert _parts(_away(), _away(), _there(), stays=[stopped, stopped, _member()]) == []


def test_programs_without_members_may_be_silent_too_but_not_to_the_end() -> None:
    ended = _every(5, (0, 600))
    assert len(_parts(_away(), _away(), _there(), stays=[[], [], []])) == 1
    assert _parts(ended, ended, _there(), stays=[[], [], []]) == []
    assert _parts(ended, ended, _there()) == [Part(Silence(_ms(600), _ms(1_200), 2), (0, 1))]


def test_a_silence_of_all_groups_is_no_silence_of_a_part() -> None:
    whole = Silence(_ms(600), _ms(700), 4)
    assert _parts(_away(), _away(), _every(5, (0, 600), (700, 1_200)), whole=[whole]) == []


def test_groups_with_few_or_irregular_signs_show_no_moment() -> None:
    few = _every(100, (0, 600), (720, 1_200))
    assert _parts(few, few, _there(), _there()) == []
    short = _every(5, (590, 600), (720, 730))
    assert _parts(short, short, _there(), _there()) == []


def test_two_brokers_may_be_away_one_after_the_other() -> None:
    later = _every(5, (0, 800), (900, 1_200))
    found = _parts(_away(), _away(), later, later, _there())
    assert [(one.silence.from_ms, one.only) for one in found] == [(_ms(600), (0, 1)), (_ms(800), (2, 3))]
