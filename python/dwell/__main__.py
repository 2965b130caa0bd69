"""``python -m dwell doctor|run|bench|cache|...``: the command line tool ``dwell``."""

import sys

from ._tool import main

sys.exit(main())
