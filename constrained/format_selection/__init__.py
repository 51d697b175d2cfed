"""Which wire format a model gets: the one its template teaches, a chosen one, or the generic one.

Needs `template`. Start with `inferred`.
"""
