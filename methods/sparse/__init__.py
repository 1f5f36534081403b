"""Sparse vectors: n-gram features, their store, top-k search."""
