"""An entry of the supervisor that does not come up."""
