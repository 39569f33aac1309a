"""Test modules and the processes they start import the cases by name: their directory is on the path."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
os.environ.setdefault("DYN_LOG", "error")  # read when Dynamo's runtime is first used in this process
