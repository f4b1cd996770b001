"""The facts: what the groups did, one small module for each table. docs/pipeline-tables.md explains the columns."""
