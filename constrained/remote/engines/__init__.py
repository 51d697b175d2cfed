"""The engines that are spoken to over HTTP, a module each: what they are asked, what they answer.

Start with `http_sampler`, which they have in common. Answers are read strictly (`answers`).
"""
