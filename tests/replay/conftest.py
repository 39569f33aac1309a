"""Test modules and the processes they start import the cases by name: their directory is on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
