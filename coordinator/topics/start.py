"""Loads the topics of a node at a start: reads the metadata log, and handles folders that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.topics import leadership
from muster.coordinator.topics.adopt import ADOPTED, adopted, before_take_over, on_disk, take_over
from muster.coordinator.topics.catalogue import Catalogue
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.metadata_log import MIN_INSYNC_REPLICAS, MetadataLog
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.rebuild_topics import lost_topics, open_metadata_log, tells_nothing
from muster.coordinator.topics.stray_folders import Strays

Publish = Callable[[TopicsImage], object]


def load_shared(catalogue: Catalogue, snapshot: Iterable[bytes], publish: Publish) -> None:
    """Load a metadata log that other processes write too. It is the only truth, and no partition is here yet.

    `snapshot`: the state before the log's first record.
    """
    log, _ = open_metadata_log(catalogue.logs)
    catalogue.metadata_log = MetadataLog(log)
    catalogue.metadata_log.replay(snapshot)
    catalogue.begin(publish)


def load_own(
    catalogue: Catalogue,
    publish: Publish,
    internal: Callable[[str], NewTopic | None],
    partitions_are_given: Callable[[str], bool],
) -> None:
    """Replay the metadata log, and make it and the folders of partitions agree. No partition is open yet.

    `internal`: returns how an internal topic is created. `partitions_are_given`: an operator has set the number of
    partitions, whatever is on the disk.
    """
    logs, clock, draw_uuid = catalogue.logs, catalogue.clock, catalogue.draw_uuid
    log, lost = open_metadata_log(logs)
    metadata_log = catalogue.metadata_log = MetadataLog(log)
    metadata_log.load(clock.now(), catalogue.configs.broker.static.text(MIN_INSYNC_REPLICAS))
    metadata_log.begin(catalogue.racks, draw_uuid, clock.now())
    catalogue.begin(publish)
    lost = lost or tells_nothing(logs, catalogue.state)
    if lost:
        catalogue.append(lost_topics(logs, catalogue.state, catalogue.home, internal, draw_uuid, clock.now().wall_ms))
    for name in ADOPTED:
        _adopt(catalogue, name, internal, partitions_are_given)
    Strays(logs, catalogue.state, lost=lost).look()
    logs.forget_others({METADATA_TOPIC, *catalogue.state.topics})
    # whatever was lost, everything that is created from here on is known
    catalogue.strays = Strays(logs, catalogue.state, lost=False)
    catalogue.append(leadership.of_strangers(catalogue.state, catalogue.racks))
    catalogue.see_brokers()


def _adopt(
    catalogue: Catalogue,
    name: str,
    internal: Callable[[str], NewTopic | None],
    partitions_are_given: Callable[[str], bool],
) -> None:
    """Adopt the coordinators' partitions on the disk, also those that were copied there."""
    logs, home = catalogue.logs, catalogue.home
    state = catalogue.state.topics.get(name)
    if state is not None:
        place = name, state.topic_id, len(state.partitions)
        catalogue.write(before_take_over(logs, catalogue.state, home, *place))
        take_over(logs, *place)
        return
    wanted = internal(name) if on_disk(logs, name) else None
    if wanted is not None:
        catalogue.write(adopted(logs, catalogue.state, wanted, home, partitions_are_given(name)))
