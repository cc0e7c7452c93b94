"""The charts' library as text: Vega-Embed with Vega and Vega-Lite, out of the package vl-convert-python.

Putting it together takes vl-convert some seconds, since it starts a JavaScript engine, so the text is cached.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from importlib import metadata

from fasthop.cache import cache_dir
from fasthop.errors import FasthopError
from fasthop.report.files import CannotWrite, write_file

DISTRIBUTION = "vl-convert-python"
SNIPPET = "window.vegaEmbed = vegaEmbed;"
CREDIT = (
    "Vega, Vega-Lite and Vega-Embed, Copyright (c) University of Washington Interactive Data Lab and Contributors, "
    "BSD 3-Clause License: https://github.com/vega/vega/blob/main/LICENSE"
)


class NoChartLibrary(FasthopError):
    """The package that holds the charts' library is not installed, or does not work here."""


@functools.cache
def chart_library() -> str:
    """The JavaScript that defines `window.vegaEmbed`, about 0.9 MB. Raises NoChartLibrary."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise NoChartLibrary(f"{DISTRIBUTION} is not installed; pip install {DISTRIBUTION}.") from None
    # The digest stands in the first line: a file that was cut short or changed is made anew.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        path = cache_dir("page") / f"vega-{version}.js"
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(text):
            return text
    text = _bundle()
    with contextlib.suppress(OSError, CannotWrite):
        write_file(cache_dir("page") / f"vega-{version}.js", f"{_digest(text)}\n{text}".encode())
    return text


def library_version() -> str:
    """The version of Vega-Lite in the library, the newest that vl-convert has."""
    import vl_convert

    versions = vl_convert.get_vegalite_versions()
    return str(max(versions, key=lambda version: [int(part) for part in version.split(".")]))


def _bundle() -> str:
    try:
        import vl_convert

        text = vl_convert.javascript_bundle(snippet=SNIPPET)
    except ImportError as error:
        raise NoChartLibrary(f"{DISTRIBUTION} cannot be imported ({error}).") from None
    except ValueError as error:  # what vl-convert raises for all its faults
        first = str(error).partition("\n")[0]
        raise NoChartLibrary(f"{DISTRIBUTION} could not give its JavaScript ({first}).") from None
    # Only these two end or confuse a script element.
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _digest(text: str) -> str:
    return "// " + hashlib.sha256(text.encode("utf-8")).hexdigest()
