"""The scripts of a sample's groups, one each, as in `stories`."""
