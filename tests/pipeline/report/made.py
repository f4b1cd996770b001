"""An invented day for the page: three groups, one of them with a hostile name."""

from __future__ import annotations

from typing import Any

from muster.pipeline.report.content import About, Chosen, Some, Story

START_MS = 1_750_000_000_000
HOUR = 3_600_000
END_MS = START_MS + 24 * HOUR
EVIL = "<script>alert('x')</script> & co"


def share(
    generation: int, start: float, end: float | None, name: str, partitions: list[int], **given: Any
) -> dict[str, Any]:
    """A member's row; `start` and `end` in hours."""
    row = {
        "generation": generation,
        "start_ms": START_MS + round(start * HOUR),
        "end_ms": None if end is None else START_MS + round(end * HOUR),
        "member_id": f"{name}-id",
        "instance_id": None,
        "client_id": name,
        "host": "/10.0.0.1",
        "partitions": len(partitions),
        "assigned": [{"topic": "orders", "partitions": partitions}] if partitions else [],
    }
    return row | given


def rebalance(generation: int, at: float, cause: str | None, **given: Any) -> dict[str, Any]:
    """A row of `rebalances`; `at` in hours."""
    end_ms = START_MS + round(at * HOUR)
    row = {
        "group": "payments",
        "generation": generation,
        "before_generation": generation - 1,
        "start_ms": end_ms - 3_200,
        "end_ms": end_ms,
        "cause": cause,
        "trigger_member_id": "payments-2-id",
        "trigger_instance_id": None,
        "trigger_client_id": "payments-2",
        "trigger_host": "/10.0.0.2",
        "reason": None,
        "join_phase_ms": 3_000,
        "sync_phase_ms": 200,
        "took_ms": 3_200,
        "members_before": 2,
        "members_after": 1,
        "members_joined": 0,
        "members_left": 1,
        "kept": 11,
        "moved": 5,
        "gained": 0,
        "lost": 0,
        "failed_attempts": 0,
        "paused_partition_ms": 51_200,
        "source": "events",
        "confidence": 1.0,
    }
    return row | given


def story() -> Story:
    """A group of two members. One member leaves and returns."""
    shares = [
        share(1, 0, 8, "payments-1", [0, 1, 2, 3]),
        share(1, 0, 8, "payments-2", [4, 5, 7]),
        share(2, 8, 9, "payments-1", [0, 1, 2, 3, 4, 5, 6, 7]),
        share(3, 9, None, "payments-1", [0, 1, 2, 3]),
        share(3, 9, None, "payments-2", [4, 5, 6, 7], member_id="payments-2-again"),
    ]
    happened = [
        rebalance(3, 9, "member_joined", reason="back again", members_before=1, members_after=2),
        rebalance(2, 8, "session_expired"),
        rebalance(1, 0.001, None, confidence=0.6, source="inferred", before_generation=None),
    ]
    episode = {"kind": "member_died", "from_ms": START_MS + 8 * HOUR, "until_ms": START_MS + 9 * HOUR}
    episode |= {"confidence": 0.95, "sentence": "payments-2 died: 2 rebalances"}
    about = group("payments", verdict="payments-2 died <b>once</b>", level="help")
    return Story("payments", shares, Some(happened, 3), about, Some([episode], 1), progress())


def progress(steps: int = 24, lag: int = 4_800) -> list[dict[str, Any]]:
    """Rows of the table: a group whose lag shrinks by 200 records an hour."""
    return [
        {"start_ms": START_MS + at * HOUR, "until_ms": START_MS + (at + 1) * HOUR, "commits": 60, "records": 7_200}
        | {"written": 7_000, "lag": lag - (at + 1) * 200 + 600}
        for at in range(steps)
    ]


def group(name: str, **given: Any) -> dict[str, Any]:
    row = {
        "group": name,
        "level": "look",
        "verdict": f"{name}-2 was lost and nobody took its place: 1 rebalance",
        "trouble_ms": 51_200,
        "cost_ms": 153_600,
        "advice": None,
        "unadvised": None,
        "claims": [],
        "members": 2,
        "rebalances": 3,
        "paused_partition_ms": 153_600,
        "moved": 15,
        "longest": {"took_ms": 3_200, "took_least_ms": 3_200, "took_most_ms": 3_200},
        "top_cause": "session_expired",
        "score": 42.5,
        "top_trigger_client_id": "payments-2",
        "top_trigger_share": 0.667,
        "lag": 120,
    }
    return row | given


def chosen(**given: Any) -> Chosen:
    """Everything that the page shows; `given` replaces parts of it."""
    place = {"group": "payments", "topic": "orders", "partition": 3}
    whole: dict[str, Any] = {
        "about": About(
            "/data/muster", {"commit": 1_000, "malformed": 2, "unknown": 0}, True, True, what_if=("static",)
        ),
        "first_ms": START_MS,
        "last_ms": END_MS,
        "commits": 1_000,
        "groups": Some(
            [
                group("payments"),
                group(
                    EVIL,
                    level="fine",
                    verdict="fine",
                    rebalances=0,
                    paused_partition_ms=None,
                    top_cause=None,
                    top_trigger_client_id=None,
                ),
                group("only-offsets", members=None, rebalances=0, moved=None, longest=None, score=None, lag=None),
            ],
            203,
        ),
        "levels": {"look": 1, "fine": 202},
        "causes": [
            {
                "cause": "session_expired",
                "rebalances": 2,
                "took_ms": 3_200.0,
                "unread_partition_ms": 102_400,
                "confidence": 1.0,
            },
            {"cause": None, "rebalances": 1, "took_ms": None, "unread_partition_ms": None, "confidence": 0.6},
        ],
        "bucket_ms": HOUR // 2,
        "buckets": [
            {"bucket_ms": START_MS // (HOUR // 2) * (HOUR // 2), "cause": None, "rebalances": 1, "is_planned": True},
            {
                "bucket_ms": (START_MS + 8 * HOUR) // (HOUR // 2) * (HOUR // 2),
                "cause": "session_expired",
                "rebalances": 2,
                "is_planned": False,
            },
        ],
        "stories": [
            story(),
            Story(
                EVIL, [share(1, 0, None, EVIL, [0])], Some(), group(EVIL, level="fine", verdict="fine", rebalances=0)
            ),
        ],
        "regressions": Some(
            [
                place
                | {
                    "time_ms": START_MS,
                    "from_offset": 1_200,
                    "to_offset": 900,
                    "back": 300,
                    "cause": "zombie",
                    "client_id": "z",
                }
            ],
            1,
        ),
        "stalls": Some(
            [
                place
                | {
                    "start_ms": START_MS,
                    "end_ms": None,
                    "status": "STOP",
                    "complete": 1.0,
                    "first_offset": 5,
                    "last_offset": 5,
                }
                | {"lag": 90, "client_id": None}
            ],
            1,
        ),
        "lag": Some(
            [
                place
                | {"committed_offset": 880, "committed_ms": END_MS, "end_offset": 1_000, "end_ms": END_MS, "lag": 120}
                | {"behind_ms": 61_000, "client_id": "payments-2"}
            ],
            1,
        ),
        "static_candidates": Some(
            [
                {
                    "group": "payments",
                    "client_id": "payments-2",
                    "host": "/10.0.0.2",
                    "returns": 4,
                }
                | {
                    "median_absent_ms": 4_000,
                    "max_absent_ms": 9_000,
                    "session_timeout_ms_needed": 12_000,
                }
            ],
            1,
        ),
        "grid": [
            setting("static", 1, 20.0, '{"static":true}'),
            setting("as it was", 3, 153.6, "{}"),
            setting("slow", 9, 400.0),
        ],
        "advice": Some(
            [
                {"group": "payments", "sentence": "static ids would have spared 2 of 3 rebalances", "gain_s": 134.0}
                | {"uncertainty_s": 7.7}
            ],
            1,
        ),
        "fidelity": [{"source": "events", "groups": 2, "generations": 4, "reproduced": 3, "withheld": 1}],
        "withheld": Some([{"group": EVIL, "share": 0.5, "why": "1 of 2 generations came out"}], 1),
        "odd_rows": {"malformed": 2, "unknown": 0},
        "odd_reasons": [{"kind": "malformed", "reason": "the record has no key", "rows": 2}],
        "odd_times": Some([{"group": EVIL, "commits": 3, "stated_ms": 0}], 1),
    }
    return Chosen(**(whole | given))


def setting(name: str, rebalances: int, paused_s: float, text: str = '{"session.timeout.ms":45000}') -> dict[str, Any]:
    """A row of the what-if."""
    figures = {
        "rebalances": rebalances,
        "moved_partitions": rebalances * 5,
        "paused_partition_s": paused_s,
        "silent_partition_s": 5.0,
        "unread_partition_s": paused_s + 5.0,
        "detect_ms": 10_000.0,
    }
    actual = {
        "actual_rebalances": 3,
        "actual_moved_partitions": 15,
        "actual_paused_partition_s": 153.6,
        "actual_silent_partition_s": 50.0,
        "actual_unread_partition_s": 203.6,
        "actual_detect_ms": None,
    }
    changed = {"fewer": int(rebalances < 3), "more": int(rebalances > 3), "less": 1, "longer": 0}
    return {"setting": name, "settings_json": text, "groups": 1, **changed, **figures, **actual}
