"""What test folders and `bench` share: servers as subprocesses, frames by hand. Never imports the product."""
