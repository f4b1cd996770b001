"""Who asks and what they may do: principals, authentication, authorization. Knows no socket."""
