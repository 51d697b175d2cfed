"""What dialects share: bodies read, replies written; and the routes that
belong to no dialect. Start with `reading`.
"""
