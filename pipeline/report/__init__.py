"""The report: what an analysis found, as one HTML page without other files, and as lines for a terminal.

`select` takes from the tables as much as fits on a page, `page` and `summary` show it. It decides nothing about the
groups.
"""
