"""Rerank: the method; judges, which score an instance and a label (local, server); their answers, kept (judgments)."""

from xmcbench.methods.rerank.method import Rerank

__all__ = ["Rerank"]
