"""The references of the site: commands, properties, metrics, events, tables, limits. All are made from the code."""
