"""When nobody gave a sign of life, though several groups did before and after."""

from __future__ import annotations

from collections.abc import Iterable

from muster.pipeline.episodes.silence import Silence, ended_by, silences, silent_ms, with_losses

_NOON = 1_700_000_000_000


def _signs(*groups: Iterable[float]) -> list[list[int]]:
    return [[_ms(second) for second in times] for times in groups]


def _ms(second: float) -> int:
    return _NOON + round(1000 * second)


def _every(interval_s: float, from_s: float, until_s: float) -> list[float]:
    return [from_s + interval_s * number for number in range(int((until_s - from_s) / interval_s) + 1)]


def _around(interval_s: float, away_s: float = 120, shift_s: float = 0.0) -> list[float]:
    """Signs of a group from 0 to 600 s, and from 600 s + `away_s` on."""
    return [*_every(interval_s, shift_s, 600), *_every(interval_s, 600 + away_s + shift_s, 1_500)]


def test_two_minutes_without_a_commit_of_any_group_are_a_silence() -> None:
    found = silences(_signs(_around(5), _around(5, shift_s=1.5), _around(5, shift_s=3), _around(5, shift_s=4)))
    assert found == [Silence(_ms(600), _ms(720), 4)]


def test_groups_that_commit_rarely_show_a_long_silence_but_no_short_one() -> None:
    assert silences(_signs(*(_around(20, shift_s=shift) for shift in (0, 6, 12, 18)))) == [
        Silence(_ms(600), _ms(720), 4)
    ]
    assert silences(_signs(*(_around(20, 12, shift_s=shift) for shift in (0, 6, 12, 18)))) == []


def test_at_the_start_of_a_log_a_short_time_without_a_sign_is_no_silence() -> None:
    def starting(away_s: float) -> list[list[int]]:
        later = _every(5, 12 + away_s, 600)
        return _signs([0, 6, 12, *later], [1, 9, *later], [3, 11, *later])

    assert silences(starting(50)) == []
    assert silences(starting(300)) == [Silence(_ms(12), _ms(312), 3)]


def test_a_group_that_goes_on_leaves_no_silence() -> None:
    assert silences(_signs(_around(5), _around(5), _around(5), _every(5, 0, 1_500))) == []


def test_two_groups_are_too_few() -> None:
    assert silences(_signs(_around(5), _around(5))) == []


def test_other_groups_after_a_silence_do_not_count() -> None:
    before, after = _every(5, 0, 600), _every(5, 720, 1_500)
    assert silences(_signs(before, before, before, after, after, after)) == []


def test_if_the_log_ends_soon_after_a_silence_one_group_that_is_back_is_enough() -> None:
    def back(until_s: float) -> list[Silence]:
        before = _every(5, 0, 600)
        return silences(_signs([*before, *_every(5, 720, until_s)], before, before, before))

    assert back(740) == [Silence(_ms(600), _ms(720), 4)]
    assert back(755) == []  # the other groups had enough time
    before, other = _every(5, 0, 600), _every(5, 720, 740)
    assert silences(_signs(before, before, before, other)) == []


def test_a_silence_may_last_to_the_end_of_the_log() -> None:
    groups = _signs(_every(5, 0, 600), _every(5, 1, 600), _every(5, 2, 600))
    assert silences(groups, _ms(720)) == [Silence(_ms(600), _ms(720), 3)]
    assert silences(groups, _ms(640)) == []
    assert silences(groups[:2], _ms(720)) == []
    assert silences([], _ms(720)) == []


def test_the_first_group_that_is_back_does_not_divide_a_silence() -> None:
    first = [*_every(2, 0, 600), 720, 722, *_every(2, 740, 1_500)]
    found = silences(_signs(first, *(_around(2, 140, shift_s=shift) for shift in (0.5, 1, 1.5))))
    assert found == [Silence(_ms(600), _ms(740), 4)]


def test_the_joins_of_members_are_signs_of_life() -> None:
    groups = [_around(5), _around(5), _around(5)]
    assert silences(_signs(*groups, [630, 650, 670, 700])) != [Silence(_ms(600), _ms(720), 3)]


def test_a_silence_is_subtracted_from_a_duration() -> None:
    some = [Silence(_ms(100), _ms(200), 3), Silence(_ms(300), _ms(310), 3)]
    assert silent_ms(some, _ms(150), _ms(305)) == 55_000
    assert silent_ms(some, _ms(210), _ms(290)) == 0


def test_a_session_that_ends_because_of_a_silence_is_distinguished_from_a_death() -> None:
    some = [Silence(_ms(600), _ms(720), 5)]

    def ended(start_s: float, heard_s: float | None, end_s: float) -> bool:
        heard_ms = None if heard_s is None else _ms(heard_s)
        return ended_by(some, _ms(start_s), heard_ms, _ms(end_s), 45_000) is not None

    assert all(ended(0, 598, end_s) for end_s in (645, 721, 765))
    assert ended(0, None, 721)
    assert ended(722, None, 760)
    assert not ended(0, 730, 790)  # the member committed after the silence
    assert not ended(0, 550, 595)
    assert not ended(0, 598, 900)
    assert not ended(722, 800, 850)


def test_a_coordinator_that_stood_still_ends_sessions_of_several_groups_at_once() -> None:
    silence = Silence(_ms(100), _ms(220), 5)
    at_once, later = [(_ms(0), _ms(220.1))], [(_ms(0), _ms(221))]
    (frozen,) = with_losses([silence], [at_once, at_once, later, [(_ms(0), None)], [(_ms(210), _ms(220))]])
    assert (frozen.lost, frozen.is_frozen) == (2, True)
    (started_again,) = with_losses([silence], [at_once, later, later])
    assert (started_again.lost, started_again.is_frozen) == (1, False)
