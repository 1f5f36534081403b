"""MACLR and its parts: the schedule of its clusters, the tasks of its two stages, its pseudo pairs."""

from xmcbench.methods.maclr.method import MACLR

__all__ = ["MACLR"]
