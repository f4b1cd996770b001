from __future__ import annotations

import pytest

from muster.coordinator.security.authentication import (
    AUTHENTICATE,
    CHALLENGED,
    COMPLETE,
    FAILED,
    HANDSHAKE,
    MECHANISM_CHOSEN,
    NOT_REQUIRED,
    REAUTHENTICATE,
    REJECTED,
    STATES,
    TRANSITIONS,
    WITHOUT_AUTHENTICATION,
    Authentication,
    IllegalTransition,
)
from muster.coordinator.security.authorizer import ANONYMOUS, KafkaPrincipal

ALICE = KafkaPrincipal("User", "alice")


def test_a_principal_has_kafkas_text() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert str(ALICE) == "User:alice"


@pytest.mark.parametrize("event", TRANSITIONS)
@pytest.mark.parametrize("state", STATES)
def test_an_authentication_event_without_a_transition_changes_nothing(state: str, event: str) -> None:
    authentication = Authentication(state)
    target = TRANSITIONS[event].get(state)
    if target is None:
        with pytest.raises(IllegalTransition):
            authentication.happens(event)
        assert authentication.state is state
    else:
        authentication.happens(event)
        assert authentication.state is target


def test_no_event_is_allowed_without_authentication() -> None:
    assert WITHOUT_AUTHENTICATION.is_complete
    assert WITHOUT_AUTHENTICATION.principal == ANONYMOUS
    assert not [event for event, states in TRANSITIONS.items() if NOT_REQUIRED in states]


def test_an_authentication_of_two_steps_gives_a_principal() -> None:
    authentication = Authentication()
    assert authentication.state is HANDSHAKE
    authentication.happens(MECHANISM_CHOSEN)
    authentication.happens(CHALLENGED)
    assert not authentication.is_complete
    assert authentication.principal == ANONYMOUS
    authentication.proven(ALICE)
    assert authentication.is_complete
    assert authentication.principal == ALICE


def test_a_rejected_client_stays_anonymous() -> None:
    authentication = Authentication(AUTHENTICATE)
    authentication.happens(REJECTED)
    assert authentication.state is FAILED
    assert not authentication.is_complete
    assert authentication.principal == ANONYMOUS


@pytest.mark.parametrize(("name", "state"), [("alice", COMPLETE), ("bob", FAILED)])
def test_a_client_that_authenticates_again_must_keep_its_principal(name: str, state: str) -> None:
    authentication = Authentication(COMPLETE, ALICE)
    authentication.happens(MECHANISM_CHOSEN)
    assert authentication.state is REAUTHENTICATE
    assert authentication.is_complete, "other requests are handled meanwhile"
    authentication.proven(KafkaPrincipal("User", name))
    assert authentication.state is state
    assert authentication.principal == ALICE
