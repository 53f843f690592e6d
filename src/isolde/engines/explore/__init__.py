"""Model checking: everything that a few sessions of transactions can do under an isolation level."""
