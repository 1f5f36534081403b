"""Methods: found by name, described without importing them, and loaded."""
