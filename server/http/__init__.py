"""What every path shares: the gate, server-sent events, clients that leave, faults."""
