"""Looks into models, templates, schemas and servers: what is wrong, and what decided.

Stands on the core; the core does not know it. Start with `doctor`.
"""
