"""A model ready for calls.

Start with `loaded_model`, and `turn_model` for what a call is made of;
`constrained.agent.loading` makes one, and `constrained.agent.model` adds runs.
"""
