"""The runtime of the share coordinator: the shards of __share_group_state, and the persister that asks them."""
