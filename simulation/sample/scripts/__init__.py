"""The scripts of a sample's groups. `stories` has the list of them."""
