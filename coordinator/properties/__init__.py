"""Definitions of Kafka's broker, topic and group properties, and how their values are read. Pure: no input or output.

`table.json` has the definitions, distilled from Kafka's jars by tools/properties. Any package may import `properties`.
"""
