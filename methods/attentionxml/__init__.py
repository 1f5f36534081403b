"""AttentionXML: a network with an attention for each node on every level of a shallow tree of labels."""

from xmcbench.methods.attentionxml.method import AttentionXML

__all__ = ["AttentionXML"]
