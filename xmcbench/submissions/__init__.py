"""Records that others send: where they come from, and which of them are let onto a board."""
