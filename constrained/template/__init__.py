"""Chat templates: a conversation in, prompt text out; data kept apart from special tokens.

Needs `messages`. Start with `chat_template`.
"""
