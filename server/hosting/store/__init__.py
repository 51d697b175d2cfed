"""What several servers share: responses, ids of calls, dates of conversations, generated turns.

SQLite on one machine, Redis on several. Start with `shared_store`.
"""
