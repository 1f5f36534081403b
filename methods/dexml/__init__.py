"""DEXML: a dual encoder trained against all labels, or against many hard ones."""

from xmcbench.methods.dexml.method import DEXML

__all__ = ["DEXML"]
