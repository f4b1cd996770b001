"""The strategies in `group.consumer.assignors`: Kafka's two, by name or by class, and classes of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from muster.coordinator.config.error import ConfigError

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor

ASSIGNORS: Final = "group.consumer.assignors"


def named(words: Sequence[str]) -> Mapping[str, Assignor]:
    """The strategies by the names that members may choose, in the given order. The first is the default.

    Raises ConfigError with one sentence for an unknown name, and for a class that is not a strategy.
    """
    # imported here: not needed without this property
    from muster.assignors import custom
    from muster.assignors.builtin import SERVER_ASSIGNORS
    from muster.coordinator.groups.consumer.assignors import BY_CLASS

    found: dict[str, Assignor] = {}
    for word in words:
        name = BY_CLASS.get(word, word)
        if name in SERVER_ASSIGNORS:
            found.setdefault(name, SERVER_ASSIGNORS[name])
            continue
        if ":" not in word:
            known = ", ".join(SERVER_ASSIGNORS)
            raise ConfigError(
                f"{ASSIGNORS}: there is no assignor {word}; expected {known}, or a class of yours as module:Class"
            )
        try:
            assignor = custom.load(word)
        except custom.UnusableStrategy as error:
            raise ConfigError(f"{ASSIGNORS}: {error}") from error
        if assignor.name in found or assignor.name in SERVER_ASSIGNORS:
            raise ConfigError(f"{ASSIGNORS}: {word} is named {assignor.name}, as another assignor is")
        found[assignor.name] = assignor
    return found
