"""What each kind of request costs, counted and not timed, against `bench/budget.toml`."""
