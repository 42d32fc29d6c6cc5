"""What Hermes consists of besides its core."""
