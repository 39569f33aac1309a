"""`python -m dgdr_retune.operator`."""

import sys

from dgdr_retune.operator._main import main

sys.exit(main())
