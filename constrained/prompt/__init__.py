"""Prompts as tokens, put together from what the model saw of the conversation.

Needs `template`, `format_selection`, `vocabulary`. Start with `prompts`.
"""
