"""Entry point of `python -m usfa`.

Removes the working directory, which Python puts first on its path: any file there could be imported as a module.
"""

import os
import sys

_here, _ours = os.getcwd(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not sys.flags.safe_path and sys.path[:1] == [_here] and _ours != _here:
    del sys.path[0]  # before anything but the standard library is imported

from usfa.cli import main  # noqa: E402

sys.exit(main())
