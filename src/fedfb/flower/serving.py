"""A study served by Flower: the SuperLink, and on it the ServerApp that runs the study."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedfb.errors import FedFBError, WriteError
from fedfb.experiments.store import RESULT
from fedfb.files import read_json
from fedfb.flower.bundle import SECRETS, Office
from fedfb.flower.coordinator import open_folder, run_study
from fedfb.flower.events import EVENTS, Log
from fedfb.flower.link import Link, superlink
from fedfb.flower.places import GOES_ON, RUN
from fedfb.flower.post import Post
from fedfb.flower.study import Study


def serve(
    study: Study, office: Office, folder: Path, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Run a study to its end, from where an earlier run of it stopped; return the report."""
    kept = folder / RUN
    try:
        open_folder(study, kept)
        log = Log(kept / EVENTS, tell)
        with superlink(study, office, folder / SECRETS) as link:
            log.write("serving", f"{study.name} is served on {study.address}")
            app = make_server_app(study, office, kept, link, log)
            try:
                app(link.grid, Context(link.grid.run.run_id, 0, {}, RecordDict(), {}))
            except FedFBError as error:
                log.write("stopped", f"stopped: {error}")
                raise
    except WriteError as error:
        raise WriteError(f"{error} {GOES_ON}") from error
    found: dict[str, Any] = read_json(kept / RESULT, "the report that this study has just written")
    return found


def make_server_app(study: Study, office: Office, kept: Path, link: Link, log: Log) -> ServerApp:
    """Return the ServerApp of a study."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run_study(Post(study, link, log), office, kept)

    return app
