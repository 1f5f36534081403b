"""XR-Linear."""

from xmcbench.methods.xr_linear.method import XRLinear

__all__ = ["XRLinear"]
