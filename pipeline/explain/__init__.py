"""Why did a group rebalance? The tables of one group, made in this process (`muster groups explain`)."""
