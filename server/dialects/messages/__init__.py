"""Anthropic's Messages. `conversation` turns its blocks into messages of OpenAI's form, which chat
templates know."""
