"""A cluster that is simulated: replicas, their caches, the agents that ask, the ways to route."""
