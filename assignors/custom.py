"""Runs users' strategies: loads a class by its name "module:Class", and checks its answers.

The class has a `name` and `assign(members, topics)` as in `muster.assignors.assignor.Assignor`, and may have
`protocols` and `user_data`. Its constructor has no arguments. The text of an error names the member and the topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from muster.assignors.assignor import Assignment, Member, Partitions, RebalanceProtocol, Topic

_SHOWN = 5
"""How many members or topics an error names."""


class AssignmentError(Exception):
    """A strategy failed, or its answer cannot be used. The text names the strategy, the member and the topic."""


class UnusableStrategy(ValueError):
    """A name in the configuration is not that of a strategy. The text says what was expected."""


class CustomAssignor:
    """A user's strategy as an `Assignor`. It raises AssignmentError for any error of the user's code."""

    def __init__(self, strategy: Any, origin: str) -> None:
        """`strategy` is the user's object, `origin` its name in error texts. Raises UnusableStrategy."""
        name = getattr(strategy, "name", None)
        if not isinstance(name, str) or not name:
            raise UnusableStrategy(
                f"{origin}: its name is {name!r}; a text was expected, by which members agree on the strategy"
            )
        if not callable(getattr(strategy, "assign", None)):
            raise UnusableStrategy(f"{origin}: it has no method assign(members, topics)")
        protocols = tuple(getattr(strategy, "protocols", (RebalanceProtocol.EAGER,)))
        if not protocols or not all(isinstance(protocol, RebalanceProtocol) for protocol in protocols):
            raise UnusableStrategy(
                f"{origin}: its protocols are {protocols!r}; RebalanceProtocol's values were expected"
            )
        self.name = name
        self.protocols = protocols
        self._strategy, self._origin = strategy, origin

    def assign(self, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        """See Assignor.assign. A member that the strategy leaves out gets no partitions.

        Partitions may stay unassigned. Raises AssignmentError when the strategy fails, or names an unknown member,
        topic or partition. The error is also raised for a topic that the member does not subscribe to. The same holds
        for a partition that already has an owner.
        """
        try:
            answer = self._strategy.assign(members, topics)
        except Exception as error:  # a user's code may raise any exception; the error text reports it
            raise AssignmentError(
                f"strategy {self._origin} failed to assign {_some('topic', topics)} to "
                f"{_some('member', [member.member_id for member in members])}: {type(error).__name__}: {error}"
            ) from error
        return self._checked(answer, members, topics)

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """See Assignor.user_data. None when the strategy has no such method. Raises AssignmentError."""
        method = getattr(self._strategy, "user_data", None)
        if method is None:
            return None
        try:
            data = method(owned, generation)
        except Exception as error:  # a user's code may raise any exception
            raise AssignmentError(
                f"strategy {self._origin} failed to make user data for a member that owns "
                f"{_some('topic', owned or ())}: {type(error).__name__}: {error}"
            ) from error
        if data is not None and not isinstance(data, bytes):
            raise AssignmentError(f"strategy {self._origin} made user data {data!r}; bytes or None were expected")
        return data

    def _checked(self, answer: Any, members: Sequence[Member], topics: Mapping[str, Topic]) -> Assignment:
        if not isinstance(answer, Mapping):
            raise AssignmentError(
                f"strategy {self._origin} answered {answer!r}; partitions by member and topic were expected"
            )
        subscribed = {member.member_id: set(member.topics) for member in members}
        result: Assignment = {member_id: {} for member_id in subscribed}
        owners: dict[tuple[str, int], str] = {}
        for member_id, rows in answer.items():
            if member_id not in subscribed:
                raise AssignmentError(
                    f"strategy {self._origin} gave partitions to member {member_id!r}, who is not in the group "
                    f"({_some('member', subscribed)})"
                )
            if not isinstance(rows, Mapping):
                raise AssignmentError(
                    f"strategy {self._origin} gave member {member_id!r} {rows!r}; partitions by topic were expected"
                )
            for topic, partitions in rows.items():
                if topic not in subscribed[member_id]:
                    raise self._wrong(member_id, topic, "the member is not subscribed to it")
                if topic not in topics:
                    raise self._wrong(member_id, topic, "there is no such topic")
                numbers = self._numbers(member_id, topic, partitions, topics[topic].partitions)
                for number in numbers:
                    if (topic, number) in owners:
                        owner = owners[topic, number]
                        raise self._wrong(member_id, topic, f"partition {number} is given to {owner!r} already")
                    owners[topic, number] = member_id
                if numbers:
                    result[member_id][topic] = numbers
        return result

    def _numbers(self, member_id: str, topic: str, partitions: Any, count: int) -> list[int]:
        if isinstance(partitions, (str, bytes)) or not hasattr(partitions, "__iter__"):
            raise self._wrong(member_id, topic, f"{partitions!r} are no partitions; a list of numbers was expected")
        numbers = list(partitions)
        for number in numbers:
            if type(number) is not int or not 0 <= number < count:
                raise self._wrong(member_id, topic, f"there is no partition {number!r}, it has {count}")
        return numbers

    def _wrong(self, member_id: str, topic: str, what: str) -> AssignmentError:
        return AssignmentError(f"strategy {self._origin}, member {member_id!r}, topic {topic!r}: {what}")


def load(name: str) -> CustomAssignor:
    """The strategy that configuration names as "module:Class".

    Raises UnusableStrategy, saying what is wrong with the name or the class.
    """
    module_name, colon, class_name = name.partition(":")
    if not colon or not module_name or not class_name or ":" in class_name:
        raise UnusableStrategy(
            f'{name!r} does not name a strategy: "module:Class" was expected, as in "shop.sharing:ByRegion"'
        )
    try:
        module = import_module(module_name)
    except Exception as error:  # an import runs a user's code, which may raise any exception
        raise UnusableStrategy(f"{name}: importing {module_name} failed: {type(error).__name__}: {error}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        has = "has nothing of that name" if found is None else f"has {found!r} under that name"
        raise UnusableStrategy(f"{name}: {module_name} {has}; a class was expected")
    try:
        strategy = found()
    except Exception as error:  # a user's code may raise any exception
        raise UnusableStrategy(
            f"{name}: making {class_name} without arguments failed: {type(error).__name__}: {error}"
        ) from error
    return CustomAssignor(strategy, name)


def _some(kind: str, names: Any) -> str:
    """A text such as "members 'a', 'b'", with at most `_SHOWN` names."""
    shown = [repr(name) for name in list(names)[:_SHOWN]]
    if not shown:
        return f"no {kind}s"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(shown)}{more}"
