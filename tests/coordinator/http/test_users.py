"""Users with SCRAM credentials at the HTTP door."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.coordinator.http import users
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.http.users import DoorUsers, credentials_of
from muster.coordinator.security.authorizer import KafkaPrincipal
from muster.coordinator.server.metrics import ServerMetrics
from tests.coordinator.http.doors import ask
from tests.testcontrol.server import controlled

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


async def test_a_password_of_a_user_who_may_look_stands_for_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "FAILED_S", 0)
    given: dict[str, Any] = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin;User:ANONYMOUS"}
    async with controlled(users=["admin:right", "guest:right"], **given) as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0, "token"), found.server, ServerMetrics())
        await beside.start()
        door = beside.door
        for headers, status, code in (
            ({}, 401, "unauthorized"),
            (basic("admin", "right"), 200, None),
            (basic("admin", "wrong"), 401, "unauthorized"),
            (basic("nobody", "right"), 401, "unauthorized"),
            (basic("guest", "right"), 403, "forbidden"),
            ({"Authorization": "Basic !"}, 400, "bad-request"),
            ({**basic("admin", "right"), "Origin": "http://other.example"}, 401, "unauthorized"),
            ({"Authorization": "Bearer token"}, 200, None),
        ):
            found_status, answer = await ask(door, "/api/v1/server", **headers)
            assert (found_status, answer.get("error", {}).get("code")) == (status, code), headers
        await beside.stop()


async def test_right_passwords_are_remembered_and_too_many_checks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    is_password = users._is_password

    def counted(password: str, stored: Any) -> bool:
        checked.append(password)
        return is_password(password, stored)

    monkeypatch.setattr(users, "_is_password", counted)
    monkeypatch.setattr(users, "MAX_KNOWN", 1)
    async with controlled(users=["a:one", "b:two"]) as found:
        known = DoorUsers(lambda: found.server)
        for name, password in (("a", "one"), ("a", "one"), ("b", "two"), ("a", "one")):
            who = await known.principal(users.Credentials(name, password), "10.0.0.1")
            assert who == KafkaPrincipal("User", name)
        assert checked == ["one", "two", "one"]
        monkeypatch.setattr(users, "MAX_WAITING", 0)
        with pytest.raises(Failure) as caught:
            await known.principal(users.Credentials("b", "two"), "10.0.0.1")
        assert caught.value.code == "busy"
    with pytest.raises(Failure) as caught:
        await DoorUsers(lambda: None).principal(users.Credentials("b", "two"), "10.0.0.1")
    assert caught.value.code == "unavailable"


def test_only_basic_authentication_has_credentials() -> None:
    assert credentials_of({}) is None
    assert credentials_of({"authorization": "Bearer x"}) is None
    assert credentials_of({"authorization": basic("ä", "b:c")["Authorization"]}) == ("ä", "b:c")
