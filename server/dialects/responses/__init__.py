"""OpenAI's Responses. A conversation is a list of items: `items` reads them, `conversation`
converts them to chat messages, `store` keeps them for the next request.
"""
