"""Programs that run inside a box: plain, so that whoever investigates can read them there."""
