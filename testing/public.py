"""The names of `muster.testing`. All of them are imported together when the first name is used."""

from __future__ import annotations

from muster.coordinator.server.group_views import GroupView, MemberView, RecordsView
from muster.testcontrol.errors import CannotBeDone, WaitFailed, WrongValue
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.topics import NewRecord, Record
from muster.testing.case import MusterTestCase
from muster.testing.group_handles import AsyncGroup, Group
from muster.testing.handles import AsyncNode, AsyncTopic, Node, Topic
from muster.testing.server import AsyncMuster, Muster
from muster.testing.server_lines import Line

__all__ = [
    "AsyncGroup",
    "AsyncMuster",
    "AsyncNode",
    "AsyncTopic",
    "CannotBeDone",
    "Group",
    "GroupView",
    "Line",
    "MemberView",
    "Muster",
    "MusterTestCase",
    "NewRecord",
    "Node",
    "NodeView",
    "Record",
    "RecordsView",
    "Topic",
    "WaitFailed",
    "WrongValue",
]
