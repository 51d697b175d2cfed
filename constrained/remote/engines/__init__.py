"""The clients of engines over HTTP, one module for each engine: requests and replies.

Start with `http_sampler`, which they share. It reads replies strictly.
"""
