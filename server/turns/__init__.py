"""What a request of any dialect comes to, and what is told of its turn."""
