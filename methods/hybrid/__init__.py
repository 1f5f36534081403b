"""Hybrid: the rankings of several methods, fused."""

from xmcbench.methods.hybrid.method import Hybrid

__all__ = ["Hybrid"]
