"""Users with SCRAM credentials at the HTTP door."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from muster.coordinator.http import users
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.console.server_source import ServerSource
from muster.coordinator.http.console.sources import Requester
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.http.users import DoorUsers, credentials_of
from muster.coordinator.security.authorizer import ANONYMOUS, KafkaPrincipal, Operation, ResourceType
from muster.coordinator.server.metrics import ServerMetrics
from muster.protocol.api import ApiKey
from muster.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.coordinator.http.console.test_console import change, following, news_until
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.testcontrol.server import bootstrap, controlled

LITERAL = ALLOW = 3
"""A resource pattern and a permission of ACLs."""
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


async def test_a_user_sees_only_the_groups_and_topics_that_it_may_describe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "FAILED_S", 0)
    given: dict[str, Any] = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin;User:ANONYMOUS"}
    async with controlled(users=["admin:right", "guest:right"], topics=["seen:1", "hidden:1"], **given) as found:
        for kind, name, operation in (
            (ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE),
            (ResourceType.GROUP, "seen", Operation.DESCRIBE),
            (ResourceType.TOPIC, "seen", Operation.DESCRIBE),
        ):
            await _allow(found, kind, name, operation)
        beside = ServerDoor(DoorAddress("127.0.0.1", 0, "token"), found.server, ServerMetrics())
        await beside.start()
        door = beside.door
        guest, admin = basic("guest", "right"), basic("admin", "right")
        async with following(door, **guest) as stream:
            for name in ("hidden", "seen"):
                async with consuming(bootstrap(found), name, group_id=name) as consumer:
                    await found.groups.wait_stable(name, members=1, partitions=name)
                    await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            events = await news_until(stream, "rebalance_completed")
        assert {one["group"] for one in events} == {"seen"}
        await beside.stop()
        beside = ServerDoor(DoorAddress("127.0.0.1", 0, "token"), found.server, ServerMetrics())
        await beside.start()  # its console reads the groups at once
        door = beside.door

        async def read(path: str, headers: dict[str, str]) -> Any:
            status, answer = await ask(door, path, **headers)
            assert status == 200, (path, answer)
            return answer

        for headers, names in ((guest, {"seen"}), (admin, {"seen", "hidden"})):
            for path, rows, key in (
                ("/api/v1/groups", "groups", "group"),
                ("/console/groups", "groups", "group"),
                ("/console/topics", "topics", "topic"),
                ("/api/v1/topics", "topics", "topic"),
                ("/console/recent", "events", "group"),
            ):
                shown = {row[key] for row in (await read(path, headers))[rows]}
                assert shown & {"seen", "hidden"} == names, path
                assert headers is admin or shown == names, path
            assert (await read("/console/about", headers))["groups"] == len(names)
            assert (await read("/console/groups", headers))["total"] == len(names)
            for accept in ("text/plain", "application/openmetrics-text"):
                text = await read("/metrics", {**headers, "Accept": accept})
                named = set(re.findall(r'\b(?:group|consumergroup|topic)="(.*?)"', text))
                assert named & {"seen", "hidden"} == names
                assert headers is admin or named == names
                assert "muster_groups{" in text
        assert (await read("/console/topics/seen", guest))["groups"][0]["group"] == "seen"
        for path in (
            "/api/v1/groups/hidden", "/api/v1/groups/hidden/members", "/api/v1/groups/hidden/offsets",
            "/api/v1/topics/hidden", "/console/topics/hidden", "/console/groups/hidden",
            *(f"/console/groups/hidden/{part}" for part in ("offsets", "settings", "history", "why")),
        ):  # fmt: skip
            status, answer = await ask(door, path, **guest)
            assert (status, answer["error"]["code"]) == (403, "forbidden"), path
            assert "hidden" not in answer["error"]["message"]
        for action in ("delete_group", "reset_offsets"):
            given = {"action": action, "confirm": "seen", "topic": "seen", "to": "earliest"}
            status, answer = await change(door, "seen", given, **guest)
            assert (status, "AUTHORIZATION" in answer["error"]["message"]) == (409, True), answer
        assert (await change(door, "seen", {"action": "delete_group", "confirm": "seen"}, **admin))[0] == 200
        await beside.stop()


async def _allow(found: Any, kind: int, name: str, operation: int) -> None:
    row = AclCreation(kind, name, LITERAL, "User:guest", "*", operation, ALLOW)
    source = ServerSource(lambda: found.server)
    answer = await source.ask(ApiKey.CREATE_ACLS, CreateAclsRequest([row]), Requester(ANONYMOUS, "127.0.0.1"))
    assert [one.error_code for one in answer.results] == [0]
