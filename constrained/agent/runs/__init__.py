"""Durable runs: the record of a run on disk, to resume, replay, fork and export it.

Needs `agent`. Start with `recorder`, which writes each event to a `store` before it has an effect;
`record_form` converts values to JSON and back, `replay` repeats a run without a model, `export`
makes tests of a run.
"""
