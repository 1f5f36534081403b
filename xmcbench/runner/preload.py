"""Imports of every cell, and a slow look-up, for the fork server. Nothing here depends on the cell or its method."""

from __future__ import annotations

import pyarrow.compute  # noqa: F401
import scipy.sparse  # noqa: F401

from xmcbench import environment
from xmcbench.runner import parts, prediction  # noqa: F401

environment.distributions()
