"""Writing a report's files (see `fasthop.files`, where all that writes files finds them)."""

from __future__ import annotations

from fasthop.files import CannotWrite as CannotWrite
from fasthop.files import make_folder as make_folder
from fasthop.files import write_file as write_file
