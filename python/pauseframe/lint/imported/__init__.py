"""`lint --design` with a scenario of `import fabric`: `facts.py` what it has, `places.py` where, `differences.py`."""

from pauseframe.lint.imported.differences import differences
from pauseframe.lint.imported.facts import compare, is_import, uncompared

__all__ = ["compare", "differences", "is_import", "uncompared"]
