"""The image of the topics: which topics are gone since an earlier image."""

from __future__ import annotations

from muster.coordinator.groups.common.image import DeletedSince, TopicImage, TopicsImage

A, B = TopicImage("a", b"A" * 16, 1), TopicImage("b", b"B" * 16, 1)
BEFORE = TopicsImage({"a": A, "b": B}, 1)


def test_an_image_finds_the_topics_that_are_gone() -> None:
    assert TopicsImage({"b": B}, 2).gone_since(BEFORE) == {A.topic_id: "a"}
    assert TopicsImage({"a": A, "b": B}, 2).gone_since(BEFORE) == {}


def test_an_image_uses_the_topics_that_its_maker_found_gone() -> None:
    image = TopicsImage({"b": B}, 3, by_id={B.topic_id: B}, gone=DeletedSince(1, {A.topic_id: "from the caller"}))
    assert image.gone_since(BEFORE) == {A.topic_id: "from the caller"}
    older = TopicsImage({"a": A}, 0)
    assert image.gone_since(older) == {A.topic_id: "a"}
