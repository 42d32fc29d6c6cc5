"""The responder that ships with Hermes: a set of rules in the place of a language model."""
