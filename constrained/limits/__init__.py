"""Work in other processes, with limits that the operating system holds: in one for each call of a
function (`isolated_call`), or in one that is kept for many questions (`kept_process`).

Such a process imports this package, so it imports little: `errors`.
"""
