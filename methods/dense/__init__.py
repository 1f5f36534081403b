"""Search over dense vectors."""
