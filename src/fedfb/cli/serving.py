"""``fedfb serve``, ``status`` and ``fetch``: the coordinator's commands."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli.progress import talk
from fedfb.errors import ConfigError
from fedfb.extras import refuse_without

StudyFile = Annotated[Path, typer.Argument(help="The study.toml that fedfb study init wrote.")]


def serve(
    file: StudyFile,
) -> None:
    """Coordinate a study: silos join, train, and get the model.

    FILE is the study.toml that fedfb study init wrote. A study that was stopped goes on where it
    was: run the same command again.

    Example: fedfb serve triage/study.toml
    """
    refuse_without("flower", "a study")
    from fedfb.flower.bundle import read_office
    from fedfb.flower.places import RUN
    from fedfb.flower.serving import serve
    from fedfb.report.federation import report_lines

    study, office = read_office(file)
    talk(f"Serving {study.name} on {study.address}, TLS and node authentication on. Silos join by")
    talk("  fedfb join SILO.bundle --data THEIR.csv")
    talk(f"with their bundle of {', '.join(study.silos)}. Ctrl-C stops; the same command goes on.")
    report = serve(study, office, file.parent, talk)
    typer.echo("\n".join(report_lines(report)))
    talk(f"Model, report and ledger are in {file.parent / RUN}; fedfb fetch copies them.")


def status(
    file: StudyFile,
) -> None:
    """Show how far a study is, and which silos are there.

    FILE is the study.toml on the coordinator's machine.

    Example: fedfb status triage/study.toml
    """
    from fedfb.files import interpreting
    from fedfb.flower.events import EVENTS, read_events
    from fedfb.flower.places import RUN
    from fedfb.flower.study import read_study
    from fedfb.report.federation import status_lines

    study = read_study(file)
    path = file.parent / RUN / EVENTS
    events = read_events(path)
    with interpreting(path, "the log of a study as fedfb serve writes it"):
        lines = list(status_lines(study.name, study.silos, events))
    typer.echo("\n".join(lines))


def fetch(
    source: Annotated[Path, typer.Argument(help="A study.toml, or a silo's bundle.")],
    to: Annotated[Path | None, typer.Option(help="A new folder for the files.")] = None,
) -> None:
    """Copy a finished study's model, report, audit and ledger.

    SOURCE is the study.toml (coordinator) or the bundle (silo, which has no ledger). fedfb predict,
    report, ledger and export read the folder that --to names. What is achievable is in
    achievable.json, if the study asked for it.

    Example: fedfb fetch triage/study.toml --to result
    """
    from fedfb.experiments.folders import claim_empty
    from fedfb.experiments.shortfalls import first_sentences
    from fedfb.experiments.store import RESULT
    from fedfb.files import read_json
    from fedfb.flower.places import RUN, state_of
    from fedfb.flower.results import fetch

    if to is None:
        raise ConfigError("fedfb fetch needs a new folder to copy to: --to FOLDER.")
    folder = source.parent / RUN if source.suffix == ".toml" else state_of(source)
    with claim_empty(to, undo=True):
        found = [*fetch(folder, to), *_audit_page(to)]
        report = read_json(to / RESULT, "a result as the study wrote it")
    for sentence in first_sentences([report]):
        typer.echo(sentence)
    talk(f"{to} holds {', '.join(found)}.")


def _audit_page(folder: Path) -> list[str]:
    """Write page and card of the audit that lies in a folder; return their names."""
    from fedfb.cli.auditing import AUDIT, CARD, PAGE, write_audit
    from fedfb.files import interpreting, read_json
    from fedfb.report.audit.card import make_card
    from fedfb.report.page.folder import read_folder
    from fedfb.report.page.render import check_tools

    if not (folder / AUDIT).exists():
        return []
    try:
        check_tools()
    except ConfigError as error:
        talk(f"The audit is left as {AUDIT}: {error}")
        return []
    expected = "the audit of a study as fedfb serve writes it"
    record, run = read_json(folder / AUDIT, expected), read_folder(folder).runs[0]
    with interpreting(folder / AUDIT, expected):
        record["card"] = make_card(record, run, None)
        write_audit(record, folder)
    return [PAGE, CARD]
