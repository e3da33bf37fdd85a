"""`python -m usfa`. Python puts the working directory first on its path for this, where any file could be a module."""

import os
import sys

import usfa

_here = os.getcwd()
if not sys.flags.safe_path and sys.path[:1] == [_here] and os.path.dirname(usfa.__path__[0]) != _here:
    del sys.path[0]  # before anything but the standard library is imported

from usfa.cli import main  # noqa: E402

sys.exit(main())
