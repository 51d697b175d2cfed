"""Runs that last: the record of a run on disk, to resume, replay, fork and export it.

Needs `agent`. Start with `recorder`, which notes in a `store` what happens, before it has an
effect; `json_form` writes and reads what is noted, `replay` goes through a record without a model,
`export` makes tests of one.
"""
