"""`python -m kbench` is the `kbench` command."""

import sys

from kbench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
