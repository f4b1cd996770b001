from __future__ import annotations

import pytest

from muster.coordinator.groups.classic.group import (
    ASSIGNED,
    COMPLETING,
    CONVERTED,
    DEAD,
    DESERTED,
    EMPTY,
    EVENTS,
    JOINED,
    PREPARING,
    REBALANCE,
    REMOVED,
    STABLE,
    STATES,
    TRANSITIONS,
    ClassicGroup,
    IllegalTransition,
)

EVERY = [(state, event) for state in STATES for event in EVENTS]


def test_the_state_transitions_are_those_of_kafka_that_can_be_reached() -> None:
    reached = {(before, after) for (before, _), after in TRANSITIONS.items()}
    assert reached == {
        (EMPTY, PREPARING),
        (STABLE, PREPARING),
        (COMPLETING, PREPARING),
        (PREPARING, COMPLETING),
        (PREPARING, EMPTY),
        (COMPLETING, STABLE),
        (EMPTY, DEAD),
        (PREPARING, DEAD),
        (COMPLETING, DEAD),
        (STABLE, DEAD),
    }


def test_state_names_are_the_ones_that_clients_see() -> None:
    assert STATES == ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


@pytest.mark.parametrize(("state", "event"), sorted(TRANSITIONS))
def test_a_legal_transition_sets_the_time_of_the_state(state: str, event: str) -> None:
    group = ClassicGroup("g", 1)
    group.state = state
    group.transition(event, 77)
    assert (group.state, group.state_since_ms) == (TRANSITIONS[state, event], 77)


@pytest.mark.parametrize(("state", "event"), [pair for pair in EVERY if pair not in TRANSITIONS])
def test_every_other_transition_raises_and_changes_nothing(state: str, event: str) -> None:
    group = ClassicGroup("g", 1)
    group.state = state
    before = {name: getattr(group, name) for name in (*ClassicGroup.__slots__, "state", "group_id", "protocol_type")}
    with pytest.raises(IllegalTransition, match="'g' is") as raised:
        group.transition(event, 77)
    assert (raised.value.state, raised.value.event) == (state, event)
    assert {name: getattr(group, name) for name in before} == before


def test_each_transition_event_is_used() -> None:
    assert {event for _, event in TRANSITIONS} == {REBALANCE, JOINED, DESERTED, ASSIGNED, REMOVED, CONVERTED}
