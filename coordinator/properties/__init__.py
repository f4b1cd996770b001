"""Definitions of Kafka's broker, topic and group properties, and how their values are read. Pure: no input or output.

Every room may import this; it imports nothing of the others. `table.json` has the definitions (distilled from Kafka's
jars by tools/properties), and `lookup` reads it; `definition` reads values as ConfigDef does; `topic` checks what a
topic was given; `describe` lists properties with their sources as DescribeConfigs shows them; `own` holds Muster's own.
"""
