"""Stores that several servers share: SQLite on one machine, Redis on several.

Start with `store_address`. `server.models.shared_store` says what a store does.
"""
