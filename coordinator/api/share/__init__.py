"""APIs of share groups that members send to the leaders of partitions (KIP-932): ShareFetch and ShareAcknowledge."""
