"""Dynamic members that came back: departures and arrivals of one client id and host, in pairs. Plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from muster.pipeline.defaults import HEARTBEAT_MS, MAX_SESSION_TIMEOUT_MS
from muster.pipeline.facts.infer_departures import EXPIRED, LEFT

_SECOND_MS: Final = 1_000


class Stay(NamedTuple):
    """A dynamic member's time in a group."""

    client_id: str
    host: str
    member_id: str
    start_ms: int
    end_ms: int | None
    """None: it is still there, or its end is not known."""
    end_cause: str | None
    session_timeout_ms: int | None


class Return(NamedTuple):
    """A member that went and came back under another id."""

    client_id: str
    host: str
    gone_member_id: str
    back_member_id: str
    absent_ms: int
    needed_ms: int
    """The session timeout with which a static member would have been waited for, in whole seconds."""


def pair_returns(stays: Iterable[Stay]) -> list[Return]:
    """The returns in the order of arrival. Of several of one client id and host, the one that left last comes back."""
    by_place: dict[tuple[str, str], list[Stay]] = {}
    for stay in stays:
        by_place.setdefault((stay.client_id, stay.host), []).append(stay)
    found = [one for place in by_place.values() for one in _of_place(place)]
    return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].back_member_id))]


def _of_place(stays: list[Stay]) -> list[tuple[int, Return]]:
    went = [(stay.end_ms, 0, stay) for stay in stays if stay.end_ms is not None and stay.end_cause in (LEFT, EXPIRED)]
    came = [(stay.start_ms, 1, stay) for stay in stays]
    away: list[Stay] = []
    found: list[tuple[int, Return]] = []
    for at_ms, is_arrival, stay in sorted(went + came, key=lambda one: (one[0], one[1], one[2].member_id)):
        if not is_arrival:
            away.append(stay)
        elif away:
            one = _return(away[-1], stay, at_ms)
            if one.needed_ms <= MAX_SESSION_TIMEOUT_MS:  # a longer session timeout is not allowed
                away.pop()
                found.append((at_ms, one))
            else:
                # all others went earlier still
                away.clear()
    return found


def _return(gone: Stay, back: Stay, at_ms: int) -> Return:
    assert gone.end_ms is not None
    absent_ms = at_ms - gone.end_ms
    # so long before its time ended it may have been heard of last
    unheard_ms = gone.session_timeout_ms or 0 if gone.end_cause == EXPIRED else HEARTBEAT_MS
    needed_ms = -(-(absent_ms + unheard_ms) // _SECOND_MS) * _SECOND_MS
    return Return(gone.client_id, gone.host, gone.member_id, back.member_id, absent_ms, needed_ms)
