"""The page as HTML: one file, with style and script inside, that asks nobody for anything."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from fedfb.extras import refuse_without
from fedfb.report.page.content import Page


def check_tools() -> None:
    """Refuse to make a page where what draws it is not installed."""
    refuse_without("report", "a page")


def render(page: Page) -> str:
    """Return the page as HTML; whatever users may have named is escaped."""
    from jinja2 import BaseLoader, Environment, StrictUndefined

    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("page.js")
    # Only this script may run, whatever else should ever find its way into the page.
    digest = b64encode(sha256(script.encode()).digest()).decode()
    template = environment.from_string(_asset("page.html"))
    return template.render(page=page, css=_asset("page.css"), script=script, digest=digest)


def _asset(name: str) -> str:
    return files("fedfb.report.page").joinpath("templates", name).read_text(encoding="utf-8")
