"""Removes what a run has made: members, groups, topics and configs. All of them are found by their names."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Coroutine, Iterable, Mapping

from muster.client.connection import RequestFailed
from muster.conform.player.brokers import AnyConnection
from muster.conform.player.stage import DEAD_LETTERS, error_name
from muster.conform.player.story import Body
from muster.conform.target import GROUP, Target, alter

NO_ID = uuid.UUID(int=0)
GONE = frozenset({0, 3, 69})
"""The answers after which a thing no longer exists: success, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND."""
HEARTBEATS = {
    "consumer": ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "InstanceId"),
    "share": ("ShareGroupDescribe", "ShareGroupHeartbeat", None),
    "streams": ("StreamsGroupDescribe", "StreamsGroupHeartbeat", "InstanceId"),
}
"""How members of groups of each newer type are described and leave, and the field of an instance id."""
TRIES, PAUSE_S = 10, 0.5
"""How often groups are deleted, and the time between. A group may become a classic one when a member leaves."""
LEAVES = -1
"""The epoch of a member that leaves."""
CLASSIC = 0
"""The type of a classic member in a consumer group."""
FAILURES = (TimeoutError, OSError, RequestFailed, ValueError, KeyError)


class Cleaning:
    """Removes what one run has made."""

    def __init__(self, target: Target, start: str) -> None:
        self.target = target
        self.start = start
        """All names of the run begin with this text."""
        self.configs: dict[str, set[str]] = {}
        """Names of the configs that groups were given, by group."""
        self.left: list[str] = []

    def remember(self, group: str, keys: Iterable[str]) -> None:
        """Remember that a group was given configs."""
        self.configs.setdefault(group, set()).update(keys)

    async def clean(self, *, finally_: bool = True) -> None:
        """Delete the groups, and `finally_` the topics and configs of groups. Notes in `left` what stays."""
        try:
            runner = await self.target.connect()
        except FAILURES as failure:
            self.left.append(f"nothing was deleted: {failure}")
            return
        try:
            await self._tried("groups", self._delete_groups(runner))
            if finally_:
                await self._tried("topics", self._delete_topics(runner))
                await self._tried("configs of groups", self._remove_configs(runner))
        finally:
            await runner.close()

    async def _tried(self, what: str, deletion: Coroutine[object, object, list[str]]) -> None:
        try:
            self.left += await deletion
        except FAILURES as failure:
            self.left.append(f"{what} named {self.start}*: {failure or type(failure).__name__}")

    # ---- groups

    async def _delete_groups(self, runner: AnyConnection) -> list[str]:
        version, deleting = self.target.version("ListGroups", 5), self.target.version("DeleteGroups", 2)
        if version is None or deleting is None:
            return []
        refused: dict[str, int] = {}
        for number in range(TRIES):
            if number:
                await asyncio.sleep(PAUSE_S)
            listed = await runner.ask("ListGroups", version, {})
            found = {row["GroupId"]: (row.get("GroupType") or "classic").lower() for row in listed["Groups"]}
            mine = {name: kind for name, kind in found.items() if name.startswith(self.start)}
            for name, kind in mine.items():
                with contextlib.suppress(*FAILURES):
                    await self._send_away(runner, name, kind)
            refused = {}
            for names in batches(list(mine)):
                answer = await runner.ask("DeleteGroups", deleting, {"GroupsNames": names})
                codes = {row["GroupId"]: row["ErrorCode"] for row in answer["Results"]}
                refused |= {name: code for name, code in codes.items() if code not in GONE}
            if not refused:
                break
        return [f"group {name}: {error_name(code)}" for name, code in refused.items()]

    async def _send_away(self, runner: AnyConnection, name: str, kind: str) -> None:
        """Let the members of a group leave."""
        if kind in HEARTBEATS:
            describe, heartbeat, instance = HEARTBEATS[kind]
            newest = self.target.version(describe, 1)
            described = await runner.ask(describe, newest or 0, {"GroupIds": [name]})
            for member in described["Groups"][0]["Members"]:
                if member.get("MemberType") == CLASSIC:
                    row = {"MemberId": member["MemberId"], "GroupInstanceId": member["InstanceId"]}
                    await runner.ask("LeaveGroup", 4, {"GroupId": name, "Members": [row]})
                    continue
                body: Body = {"GroupId": name, "MemberId": member["MemberId"], "MemberEpoch": LEAVES}
                if instance is not None:
                    body["InstanceId"] = member["InstanceId"]
                await runner.ask(heartbeat, self.target.version(heartbeat, 1) or 0, body | EMPTY.get(kind, {}))
            return
        found = await runner.ask("DescribeGroups", self.target.version("DescribeGroups", 5) or 0, {"Groups": [name]})
        members = found["Groups"][0]["Members"]
        version = self.target.version("LeaveGroup", 4)
        if not members or version is None:
            return
        if version < 3:
            for member in members:
                await runner.ask("LeaveGroup", version, {"GroupId": name, "MemberId": member["MemberId"]})
            return
        rows = [{"MemberId": one["MemberId"], "GroupInstanceId": one["GroupInstanceId"]} for one in members]
        await runner.ask("LeaveGroup", version, {"GroupId": name, "Members": rows})

    # ---- topics and configs

    async def _delete_topics(self, runner: AnyConnection) -> list[str]:
        version, deleting = self.target.version("Metadata", 12), self.target.version("DeleteTopics", 6)
        if version is None or deleting is None:
            return []
        found = await runner.ask("Metadata", version, {"Topics": None})
        starts = (self.start, DEAD_LETTERS + self.start)
        mine = [row["Name"] for row in found["Topics"] if row["Name"] and row["Name"].startswith(starts)]
        left = []
        for names in batches(mine):
            rows = [{"Name": name, "TopicId": NO_ID} for name in names]
            body = {"Topics": rows} if deleting >= 6 else {"TopicNames": names}
            answer = await runner.ask("DeleteTopics", deleting, {**body, "TimeoutMs": 10_000})
            bad = [row for row in answer["Responses"] if row["ErrorCode"] not in GONE]
            left += [f"topic {row['Name']}: {error_name(row['ErrorCode'])}" for row in bad]
        return left

    async def _remove_configs(self, runner: AnyConnection) -> list[str]:
        version = self.target.version("IncrementalAlterConfigs", 1)
        if version is None:
            return []
        left = []
        for names in batches(sorted(self.configs)):
            left += await alter(runner, version, [(GROUP, name, dict.fromkeys(self.configs[name])) for name in names])
        return left


EMPTY: Mapping[str, Body] = {
    "share": {"RackId": None, "SubscribedTopicNames": None},
    "streams": {"ActiveTasks": None, "StandbyTasks": None, "WarmupTasks": None},
}
"""Fields of a leaving member, by the type of the group."""


def batches(names: list[str], size: int = 100) -> list[list[str]]:
    """The names in portions."""
    return [names[start : start + size] for start in range(0, len(names), size)]
