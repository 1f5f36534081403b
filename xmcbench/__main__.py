"""``python -m xmcbench``."""

import sys

from xmcbench.command.main import main

sys.exit(main())
