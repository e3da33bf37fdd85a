import sys

from usfa.cli import main

sys.exit(main())
