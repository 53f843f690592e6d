"""One folder a verb, blind to each other."""
