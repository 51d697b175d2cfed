"""HTTP, whatever the dialect: the gate that every request passes, replies and server-sent events,
clients that disconnect, and the server's own paths. Needs `turns`. Start with `replies`."""
