"""What may be the matter, rule by rule, and what they know of the programs and files concerned."""
