"""XR-Transformer: an encoder fine-tuned level by level on a tree of labels, and linear classifiers on what it gives."""

from xmcbench.methods.xr_transformer.method import XRTransformer

__all__ = ["XRTransformer"]
