"""The report: what an analysis found, as one HTML page without other files, and as lines for a terminal.

`select` chooses as many rows of the tables as fit on a page. `page` and `summary` show them. The report judges nothing
about the groups.
"""
