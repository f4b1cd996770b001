"""Definitions of Kafka's broker, topic and group properties, and how their values are read. Pure: no input or output.

Every package may import this one; it imports none of them.

* `table.json` has the definitions, distilled from Kafka's jars by tools/properties; `lookup` reads it.
* `definition` reads values as ConfigDef does.
* `topic` checks a topic's configs.
* `describe` lists properties with their sources, as in DescribeConfigs.
* `own` has Muster's own properties.
"""
