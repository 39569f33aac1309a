"""Worker processes import test doubles by name: their directory is on the path that workers inherit."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
