"""A drill: transactions that wait for one that forgot them."""
