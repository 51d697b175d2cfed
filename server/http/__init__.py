"""HTTP for all dialects: the gate that every request passes, bodies, server-sent events,
connections and disconnected clients. Start with `gate`.
"""
