"""Proves of any broker where it is not Kafka: stories that were recorded on Apache Kafka are played on it.

`player/` plays a story, by a codec of its own from Kafka's message definitions. `stories/` has the stories, by level.
`catalogue.py` finds them, and `results.py` has what came of each.
"""
