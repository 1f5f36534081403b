"""MLLM: the method, terms and their matches in sentences, and the features and trees that rank candidates."""

from xmcbench.methods.mllm.method import MLLM

__all__ = ["MLLM"]
