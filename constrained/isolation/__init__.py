"""Runs functions in separate processes, with limits on time and memory: `isolated_call`.

Such a process imports this package, so it imports little: `errors`.
"""
