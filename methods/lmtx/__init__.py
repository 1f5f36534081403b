"""LMTX: the method; the lexical judge; the training on judged labels (judged_pairs)."""

from xmcbench.methods.lmtx.method import LMTX

__all__ = ["LMTX"]
