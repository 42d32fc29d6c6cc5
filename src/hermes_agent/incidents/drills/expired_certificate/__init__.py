"""A drill: a certificate that is not valid now."""
