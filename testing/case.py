"""A server for each class of tests with the standard library's unittest."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any, ClassVar

from muster.testing.server import Muster
from muster.testing.settings import TopicsGiven, Value


class MusterTestCase(unittest.TestCase):
    """A test case with a server, `self.muster`, which all tests of the class share. Attributes of the class describe
    it:

        class Orders(MusterTestCase):
            muster_topics = {"orders": 6}

    As a mixin, this class stands before another base class.
    """

    muster: ClassVar[Muster]
    muster_properties: ClassVar[Mapping[str, Value]] = {}
    muster_topics: ClassVar[TopicsGiven] = ()
    muster_nodes: ClassVar[int] = 1
    muster_fresh: ClassVar[bool] = False
    """Whether each test has a server of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        """Start the server of the class."""
        super().setUpClass()
        if not cls.muster_fresh:
            cls.muster = cls._started()
            cls.addClassCleanup(cls.muster.stop)

    def setUp(self) -> None:
        """Start the test's own server, if `muster_fresh` demands one."""
        super().setUp()
        if self.muster_fresh:
            # only this test sees the attribute of the instance
            own: Any = self
            own.muster = self._started()
            self.addCleanup(own.muster.stop)
        self.addCleanup(self.muster.raise_failure)

    @classmethod
    def _started(cls) -> Muster:
        return Muster(cls.muster_properties, topics=cls.muster_topics, nodes=cls.muster_nodes).start()
