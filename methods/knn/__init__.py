"""kNN: the method, and the spaces in which it measures similarity."""

from xmcbench.methods.knn.method import KNN

__all__ = ["KNN"]
