"""Reliable tool calls from local, quantized models."""
