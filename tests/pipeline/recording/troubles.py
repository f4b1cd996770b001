"""Trouble that no group of a recording has caused: the broker, one of several brokers, or hosts of members are away."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from tests.pipeline.recording import brokers
from tests.pipeline.recording.cast import Group, Stage, now_ms
from tests.pipeline.recording.grammar import UNTOUCHED, Cast
from tests.support.servers import KafkaCluster, KafkaServer

FROZEN_S: Final = 14.0
AWAY_S: Final = 120.0
SHORT_S: Final = 45.0
NODE_S: Final = 50.0
"""So long after a node was lost, its members start on another one."""


def trouble(kind: str, cast: list[Group], server: KafkaServer, stage: Stage) -> None:
    """Cause trouble that no group has caused, and that hits several at the same moment."""
    begun = now_ms()
    # a consumer that is no member is not affected
    hit = [group for group in cast if len(group.running) > 1 and not group.name.startswith(("twice", "stranger"))]
    if kind == "restart":
        server.stop()
        server.start()
    else:
        pids = [server.pid]
        if kind == "hosts":
            pids = [group.processes[number].pid for group in hit for number in group.running]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with suppress(ProcessLookupError):  # some end by themselves
                    os.kill(pid, number)
            time.sleep(FROZEN_S if number == signal.SIGSTOP else 0)
    time.sleep(30)
    names = [group.name for group in hit]
    line = {"kind": "episode", "group": None, "what": "trouble", "how": kind, "members": [], "groups": names}
    stage.truth.write(**line, **{"from": begun}, until=now_ms())


def in_the_midst(scene: Cast, cast: list[Group], server: KafkaServer, stage: Stage) -> None:
    """Let the trouble happen while the groups play."""
    time.sleep(scene.after_s)
    if isinstance(server, KafkaCluster):
        brokers.TROUBLES[scene.trouble](cast, server, stage)
    elif scene.trouble == "node":
        node_lost([group for part, group in zip(scene.parts, cast, strict=True) if part.play in UNTOUCHED], stage)
    elif scene.trouble.startswith("away"):
        away(scene.trouble, server, stage)
        if scene.trouble == "away-twice":
            time.sleep(50)
            away("away", server, stage)
        time.sleep(60)
    elif scene.trouble == "restarts":
        for _ in range(2):
            trouble("restart", cast, server, stage)
    elif scene.trouble != "none":
        trouble(scene.trouble, cast, server, stage)


def away(how: str, server: KafkaServer, stage: Stage) -> None:
    """The broker is away, mostly for two minutes: it is stopped, or its process is frozen."""
    begun, length_s = now_ms(), SHORT_S if how == "away-short" else AWAY_S
    stage.present.clear()
    if how != "away-frozen":
        server.stop()
        time.sleep(length_s)
        server.start()
    else:
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(length_s)
        os.kill(server.pid, signal.SIGCONT)
    stage.truth.write(kind="silence", how=how, **{"from": begun}, until=now_ms())
    stage.present.set()


def node_lost(groups: list[Group], stage: Stage) -> None:
    """A node is lost, and with it a member of each of these groups. Later they start on another node."""
    hit = [group for group in groups if 2 in group.running]
    begun = now_ms()
    for group in hit:
        group.kill(2)
    time.sleep(NODE_S)
    for group in hit:
        group.episode("deaths", begun, (2,))
    names = {"groups": [group.name for group in hit], "members": [group.name_of(2) for group in hit]}
    stage.truth.write(kind="node", **names, **{"from": begun}, until=now_ms())
    begun = now_ms()
    for group in hit:
        group.processes[2].start()
    time.sleep(20)
    for group in hit:
        group.episode("scale_out", begun, (2,))
