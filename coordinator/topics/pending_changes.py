"""Changes of the metadata log that are not durable yet.

A change is in force at once. Only when it is durable, groups get the new image, clients get their answer, and files of
deleted topics are removed: if a power cut undoes it before, no client has relied on it. One sync serves all that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import LogOffline
from muster.coordinator.log.storage.shared_sync import Waiter, Waiters


class PendingChanges:
    """Which changes are durable, by the version of the metadata log's state."""

    __slots__ = (
        "_doomed",
        "_image",
        "_is_published",
        "_publish",
        "_published",
        "_remove",
        "_settling",
        "_sync",
        "_version",
        "_waiters",
        "version",
    )

    def __init__(
        self,
        version: Callable[[], int],
        sync: Callable[[Waiter], object],
        image: Callable[[], TopicsImage],
        publish: Callable[[TopicsImage], object],
        remove: Callable[[Sequence[str]], object],
    ) -> None:
        """`version`: of the state now; `sync`: calls back when all that is written now is durable, or cannot be;
        `image` makes the topics' image of the state now, `publish` gives one to all who want it; `remove` takes
        folders off the disk.
        """
        self._version = version
        self._sync = sync
        self._image = image
        self._publish = publish
        self._remove = remove
        self.version = version()
        """All before is durable and told."""
        self._settling = False
        self._is_published = True
        self._published = 0
        """The version of the newest image that was told."""
        self._waiters = Waiters()
        self._doomed: deque[tuple[int, Sequence[str]]] = deque()

    def changed(self, *, topics: bool, doomed: Sequence[str] = ()) -> None:
        """Something was written: of what topics there are (`topics`), or else. `doomed`: folders of deleted topics."""
        if topics:
            self._is_published = False
        if doomed:
            self._doomed.append((self._version(), doomed))
        self._settle()

    def when_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` when all changes so far are durable and told, at once when they are; or
        `callback(error)` when the disk fails: then they are in force, and may be gone after a power cut.
        """
        version = self._version()
        if version <= self.version:
            callback(None)
        else:
            self._waiters.add(version, callback)
            self._settle()

    def resume(self) -> None:
        """The log works again after a failure."""
        if self.version < self._version() or not self._is_published:
            self._settle()

    def publish(self) -> None:
        """Publish the present image at once: at a start, before the first client comes."""
        self._is_published = True
        self._tell(self._image())

    def _tell(self, image: TopicsImage) -> None:
        if image.version > self._published:
            self._published = image.version
            self._publish(image)

    def _settle(self) -> None:
        if self._settling:
            return
        self._settling = True
        version = self._version()
        # as it is now: what is changed while the disk is waited for is not to be told with it
        image = None if self._is_published else self._image()
        self._is_published = True
        self._sync(lambda failure: self._settled(version, image, failure))

    def _settled(self, version: int, image: TopicsImage | None, failure: LogOffline | None) -> None:
        self._settling = False
        if failure is not None:
            if image is not None:
                self._is_published = False
            self._waiters.fail(failure)
            return
        self.version = version
        if image is not None:
            self._tell(image)
        doomed: list[str] = []
        while self._doomed and self._doomed[0][0] <= version:
            doomed += self._doomed.popleft()[1]
        if doomed:
            self._remove(doomed)
        self._waiters.release(version)
        if version < self._version() or not self._is_published:
            self._settle()
