"""The commands `hermes drift` and `hermes manifests`."""
