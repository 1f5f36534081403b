"""Astec: an encoder trained on clusters of labels, shortlists of near labels, then a classifier for each label."""

from xmcbench.methods.astec.method import Astec

__all__ = ["Astec"]
