"""Changes of the metadata log that are not durable yet.

A change is in force at once. Groups get the new image and clients their answer only when it is durable. Files of
deleted topics are removed then too. So no client relies on a change that a power cut may undo. One sync serves all
waiting callers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import LogOffline
from muster.coordinator.log.storage.shared_sync import Waiter, Waiters


class PendingChanges:
    """Knows which changes are durable, by the version of the metadata log's state."""

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
        """`version`: returns the version of the present state.

        `sync`: calls back when all present records are durable, or a sync has failed. `image`: makes the image of the
        present topics. `publish`: gives an image to all subscribers. `remove`: removes folders from the disk.
        """
        self._version = version
        self._sync = sync
        self._image = image
        self._publish = publish
        self._remove = remove
        self.version = version()
        """All changes before this version are durable and published."""
        self._settling = False
        self._is_published = True
        self._published = 0
        """The version of the newest image that was published."""
        self._waiters = Waiters()
        self._doomed: deque[tuple[int, Sequence[str]]] = deque()

    def changed(self, *, topics: bool, doomed: Sequence[str] = ()) -> None:
        """Note a change, of topics (`topics`) or of something else. `doomed`: folders of deleted topics."""
        if topics:
            self._is_published = False
        if doomed:
            self._doomed.append((self._version(), doomed))
        self._settle()

    def when_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` when all changes so far are durable and published: at once if they are.

        When the disk fails, call `callback(error)`. The changes are then in force, but a power cut may undo them.
        """
        version = self._version()
        if version <= self.version:
            callback(None)
        else:
            self._waiters.add(version, callback)
            self._settle()

    def resume(self) -> None:
        """Go on after the log works again."""
        if self.version < self._version() or not self._is_published:
            self._settle()

    def publish(self) -> None:
        """Publish the present image at once: at a start, before the first client connects."""
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
        # the present image: a change during the sync must not be published with it
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
