"""The filters that events of a turn pass on their way out, in this order.

`checked_values` waits until a value is checked, `call_limits` until a call differs from those
that were written often enough; nothing passes behind one of the `stop_texts`. Needs `logits`.
"""
