"""`python -m fasthop` is the command `fasthop`."""

from __future__ import annotations

import sys

from fasthop.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
