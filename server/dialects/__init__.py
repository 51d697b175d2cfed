"""The HTTP dialects: a folder each, which decodes requests and encodes replies."""
