"""The test suite behind `modules/tt test`. Standard library only."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "modules"))

from suite.rings import run

__all__ = ["run"]
