"""HTTP faces for others: the OpenAI-compatible API."""
