"""ZestXML: the method, its sparsity rule, and the solver of its bilinear model."""

from xmcbench.methods.zestxml.method import ZestXML

__all__ = ["ZestXML"]
