"""`python -m dgdr_retune.publisher`."""

import os
import sys

from dgdr_retune.publisher._main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
