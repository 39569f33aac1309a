"""`python -m dgdr_retune.publisher`."""

import os
import signal
import sys

# The first process of a container has no default for SIGTERM, and what follows takes a second to import.
signal.signal(signal.SIGTERM, lambda *_: os._exit(1))

from dgdr_retune.publisher._main import main  # noqa: E402 -- see above

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
