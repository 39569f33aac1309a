"""`python -m dgdr_retune.sweeper`."""

import os
import signal
import sys

# The first process of a container has no default for SIGTERM, and what follows takes a second to import.
signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

from dgdr_retune.sweeper._command import main  # noqa: E402 -- see above

sys.exit(main(sys.argv[1:], os.environ))
