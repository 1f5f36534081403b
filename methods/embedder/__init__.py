"""Any sentence-transformers model, as it is."""

from xmcbench.methods.embedder.method import Embedder

__all__ = ["Embedder"]
