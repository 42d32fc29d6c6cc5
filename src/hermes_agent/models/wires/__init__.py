"""Wire formats: a request becomes bytes, bytes become a reply."""
