"""Renee: an encoder and a classifier of all labels, trained together."""

from xmcbench.methods.renee.method import Renee

__all__ = ["Renee"]
