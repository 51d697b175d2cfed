"""Deadlines, and work in other processes with limits that the operating system holds.

Start with `kept_process`, a process for many questions; `isolated_call` has one for each call of a
function. Such a process imports this package, so it imports little.
"""
