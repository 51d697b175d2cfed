"""Functions in processes of their own, within bounds on time and memory: `isolated_call`.

Such a process imports this room, so it needs little: `errors`.
"""
