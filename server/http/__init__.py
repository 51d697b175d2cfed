"""HTTP for all dialects: the gate that every request passes, replies and server-sent events,
disconnected clients, and the server's own paths. Needs `turns`. Start with `replies`."""
