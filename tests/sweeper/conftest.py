"""Worker processes import the cases by name, so they are on the path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
