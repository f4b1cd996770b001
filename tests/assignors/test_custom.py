"""Strategies that users write: how Muster finds them, and which errors it reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.assignors.assignor import Assignor, Member, RebalanceProtocol, Topic
from muster.assignors.custom import AssignmentError, CustomAssignor, UnusableStrategy, load

MEMBERS = [Member("m1", ("t", "u")), Member("m2", ("t", "gone"))]
TOPICS = {"t": Topic(2), "u": Topic(1)}


class Everything:
    """The first member takes all partitions that it may take."""

    name = "everything"

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Any:
        first = members[0]
        return {first.member_id: {topic: list(range(topics[topic].partitions)) for topic in first.topics}}


class NoName:
    def assign(self, members: Any, topics: Any) -> Any: ...


class NoAssign:
    name = "no-assign"


class OddProtocols(Everything):
    protocols = ("eager",)


class NeedsArguments(Everything):
    def __init__(self, size: int) -> None: ...


class Remembers(Everything):
    protocols = (RebalanceProtocol.EAGER,)
    data: Any = b"seen"

    def user_data(self, owned: Any, generation: int) -> Any:
        if self.data == "fail":
            raise KeyError("lost it")
        return self.data


def answering(answer: Any) -> CustomAssignor:
    """A strategy that gives this answer, or calls it."""

    class Answers(Everything):
        def assign(self, members: Any, topics: Any) -> Any:
            return answer() if callable(answer) else answer

    return CustomAssignor(Answers(), "shop:Answers")


def test_a_custom_strategy_is_loaded_by_name() -> None:
    strategy = load(f"{__name__}:Everything")
    assert isinstance(strategy, Assignor)
    assert (strategy.name, strategy.protocols) == ("everything", (RebalanceProtocol.EAGER,))
    assert strategy.assign(MEMBERS, TOPICS) == {"m1": {"t": [0, 1], "u": [0]}, "m2": {}}
    assert strategy.user_data({"t": [0]}, 1) is None
    assert load(f"{__name__}:Remembers").user_data(None, -1) == b"seen"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shop.Strategy", '"module:Class" was expected'),
        (":Strategy", '"module:Class" was expected'),
        ("shop:", '"module:Class" was expected'),
        ("shop:a:b", '"module:Class" was expected'),
        ("no_such_module:Strategy", "importing no_such_module failed: ModuleNotFoundError"),
        ("..shop:Strategy", "importing ..shop failed"),
        (f"{__name__}:Missing", "has nothing of that name; a class was expected"),
        (f"{__name__}:MEMBERS", "under that name; a class was expected"),
        (f"{__name__}:NoName", "its name is None; a text was expected"),
        (f"{__name__}:NoAssign", "it has no method assign"),
        (f"{__name__}:OddProtocols", "RebalanceProtocol's values were expected"),
        (f"{__name__}:NeedsArguments", "making NeedsArguments without arguments failed: TypeError"),
    ],
)
def test_an_unusable_strategy_is_refused_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(UnusableStrategy) as refused:
        load(name)
    assert said in str(refused.value)
    assert name.partition(":")[2] in str(refused.value)


def test_a_strategy_module_that_fails_on_import_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breaks_on_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UnusableStrategy, match="importing breaks_on_import failed: ZeroDivisionError: division by zero"
    ):
        load("breaks_on_import:Strategy")
    assert "breaks_on_import" not in sys.modules


def raising() -> Any:
    raise KeyError("m7")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answered None; partitions by member and topic were expected"),
        ({"m9": {}}, "member 'm9', who is not in the group (members 'm1', 'm2')"),
        ({"m1": [("t", 0)]}, "gave member 'm1' [('t', 0)]; partitions by topic were expected"),
        ({"m2": {"u": [0]}}, "member 'm2', topic 'u': the member is not subscribed to it"),
        ({"m2": {"gone": [0]}}, "member 'm2', topic 'gone': there is no such topic"),
        ({"m1": {"t": [2]}}, "member 'm1', topic 't': there is no partition 2, it has 2"),
        ({"m1": {"t": [-1]}}, "member 'm1', topic 't': there is no partition -1, it has 2"),
        ({"m1": {"t": ["0"]}}, "member 'm1', topic 't': there is no partition '0', it has 2"),
        ({"m1": {"t": 0}}, "member 'm1', topic 't': 0 are no partitions"),
        ({"m1": {"t": "01"}}, "member 'm1', topic 't': '01' are no partitions"),
        ({"m1": {"t": [0]}, "m2": {"t": [1, 0]}}, "member 'm2', topic 't': partition 0 is given to 'm1' already"),
        ({"m1": {"t": [0, 0]}}, "member 'm1', topic 't': partition 0 is given to 'm1' already"),
        (raising, "failed to assign topics 't', 'u' to members 'm1', 'm2': KeyError: 'm7'"),
    ],
)
def test_a_wrong_custom_assignment_names_the_member_and_the_topic(answer: Any, said: str) -> None:
    with pytest.raises(AssignmentError) as raised:
        answering(answer).assign(MEMBERS, TOPICS)
    assert str(raised.value).startswith("strategy shop:Answers")
    assert said in str(raised.value)


def test_an_error_of_a_custom_strategy_does_not_list_a_large_group() -> None:
    members = [Member(f"m{number}", ("t",)) for number in range(2_000)]
    with pytest.raises(AssignmentError, match=r"topic 't' to members 'm0', .*'m4' and 1995 more: KeyError"):
        answering(raising).assign(members, {"t": Topic(1)})


def test_a_custom_strategy_may_omit_partitions_and_use_any_sequence() -> None:
    strategy = answering({"m2": {"t": (1,)}, "m1": {"u": range(1), "t": []}})
    assert strategy.assign(MEMBERS, TOPICS) == {"m1": {"u": [0]}, "m2": {"t": [1]}}


@pytest.mark.parametrize(("data", "said"), [("fail", "owns topic 't': KeyError: 'lost it'"), (7, "made user data 7")])
def test_invalid_custom_user_data_is_refused(data: Any, said: str) -> None:
    strategy = Remembers()
    strategy.data = data
    with pytest.raises(AssignmentError, match=said):
        CustomAssignor(strategy, "shop:Remembers").user_data({"t": [0]}, 3)


def test_the_cause_of_a_custom_strategy_error_is_kept() -> None:
    fail: Callable[[], Any] = raising
    with pytest.raises(AssignmentError) as raised:
        answering(fail).assign(MEMBERS, TOPICS)
    assert isinstance(raised.value.__cause__, KeyError)
