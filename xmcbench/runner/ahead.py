"""What most cells import, and what takes long to find out.

None of it is the code of a method, and nothing here depends on the cell.
"""

from __future__ import annotations

import pyarrow.compute  # noqa: F401
import scipy.sparse  # noqa: F401

from xmcbench import environment
from xmcbench.runner import parts, prediction  # noqa: F401

environment.distributions()
