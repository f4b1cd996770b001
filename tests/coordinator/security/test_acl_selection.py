"""Many filters over the same entries select what each filter selects alone, entry by entry."""

from __future__ import annotations

from random import Random

from muster.coordinator.security.acls import MAX_TABLES, Acl, AclFilter, AclSelection
from muster.coordinator.system.jobs import at_once

NAMES = ("a", "ab", "abc", "b", "*", "abcd", "")


def some_acl(rng: Random) -> Acl:
    return Acl(
        rng.choice((2, 3)),
        rng.choice(NAMES),
        rng.choice((3, 4)),
        rng.choice(("User:a", "User:*")),
        rng.choice(("*", "::1")),
        rng.choice((2, 3, 4)),
        rng.choice((2, 3)),
    )


def some_filter(rng: Random) -> AclFilter:
    return AclFilter(
        rng.choice((1, 2, 3)),
        rng.choice((None, *NAMES)),
        rng.choice((1, 2, 3, 4)),
        rng.choice((None, "User:a", "User:b")),
        rng.choice((None, "*", "nowhere")),
        rng.choice((1, 3, 5)),
        rng.choice((1, 2, 3)),
    )


def test_many_filters_select_the_same_as_single_filters() -> None:
    rng = Random(7)
    found = 0
    for _ in range(20):
        acls = list(dict.fromkeys(some_acl(rng) for _ in range(60)))
        selection = AclSelection(acls)
        for _ in range(200):
            wanted = some_filter(rng)
            selected = at_once(selection.select(wanted))
            assert sorted(selected) == sorted(acl for acl in acls if wanted.selects(acl)), wanted
            found += len(selected)
        assert len(selection._tables) == MAX_TABLES
    assert found > 1_000


def test_a_selection_of_no_entries_is_empty() -> None:
    selection = AclSelection([])
    for pattern in (1, 2, 3):
        assert at_once(selection.select(AclFilter(1, None, pattern, None, None, 1, 1))) == []
        assert at_once(selection.select(AclFilter(1, "a", pattern, None, None, 1, 1))) == []
