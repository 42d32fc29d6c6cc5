"""A drill: something that a service needs answers late."""
