"""``fedfb study``: make a study, and keys for a silo.

``fedfb join``: a silo takes part in a study.

``fedfb serve``, ``status`` and ``fetch``: the coordinator's commands.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import Sections, experiment_options, read_names
from fedfb.cli.progress import talk
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.extras import refuse_without

if TYPE_CHECKING:
    from fedfb.data.schema import Schema

study = typer.Typer(
    help="Make a study: many silos, one model, no row leaves.\n\n"
    "Example: fedfb study init triage --like template.csv --silos a,b,c ...",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@experiment_options(
    "data", "client_column", "test", "partition", "clients", "groups", "heterogeneity", "q",
    "rows", "test_rows", "resplit", "cost", "dropout", "secure", "tune", "accuracy_floor",
)  # fmt: skip
def init(
    experiment: Experiment,
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    like: Annotated[
        str,
        typer.Option(help="In place of --schema: a file, or several ('*.csv'), like the silos'."),
    ] = "",
    silos: Annotated[str, typer.Option(help="The silos' names, separated by commas.")] = "",
    address: Annotated[
        str,
        typer.Option(
            help="Where silos reach the coordinator (default 127.0.0.1:9443).", show_default=False
        ),
    ] = "127.0.0.1:9443",
    name: Annotated[str | None, typer.Option(help="The study's name (default: FOLDER's).")] = None,
    least: Annotated[
        int | None,
        typer.Option(help="Silos that must answer, or it stops (default: over two thirds)."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds that one message may take (default 600).", show_default=False),
    ] = 600.0,
    wait: Annotated[
        float,
        typer.Option(help="Seconds to wait for silos (default 3600).", show_default=False),
    ] = 3600.0,
    keys: Annotated[
        str, typer.Option(help="Public keys (*.pub) of silos that made their own.")
    ] = "",
    single: Annotated[
        bool,
        typer.Option("--single", help="Allow methods that see every silo's own value."),
    ] = False,
    achievable: Annotated[
        bool,
        typer.Option(
            "--achievable",
            help="Also tell what fairness can be reached: shows every silo's spread of scores.",
        ),
    ] = False,
) -> None:
    """Make a study: its file, certificates, keys, and silos' bundles.

    FOLDER then holds study.toml to read, secrets/ for the coordinator and bundles/, one for each
    silo: give each to its silo and to nobody else. Columns, categories and groups are those of the
    schema (fedfb schema infer), or are read off the files given by --like, and are known to all.
    Another study is made anew.

    Example: fedfb study init triage --schema schema.toml
    --silos east,north,south,west

    Example: fedfb study init triage --like template.csv --label urgent
    --positive yes --sensitive sex,region --silos east,north,south,west
    """
    refuse_without("flower", "a study")
    from fedfb.study.keys import create, read_public_keys
    from fedfb.study.study import make_study
    from fedfb.study.trial import check_study

    if not silos:
        raise ConfigError("a study needs the names of its silos: --silos east,north,south.")
    schema = _schema(experiment, like)
    made = make_study(
        name or folder.resolve().name,
        address,
        tuple(read_names(silos, "--silos")),
        schema,
        experiment,
        least=least,
        timeout_s=timeout,
        wait_s=wait,
        single=single,
        achievable=achievable,
    )
    check_study(made)
    known = dict(read_public_keys(Path(path)) for path in keys.split(",") if path)
    create(made, folder, known)
    talk(
        f"{folder} holds the study. Read study.toml, give every silo its bundle in "
        f"{folder / 'bundles'}, keep {folder / 'secrets'} to yourself, then: "
        f"fedfb serve {folder / 'study.toml'}"
    )


def _schema(experiment: Experiment, like: str) -> "Schema":
    """Return the schema that is declared, or that files like the silos' have."""
    from fedfb.data.conform import agreed_schema
    from fedfb.data.declare import Wanted
    from fedfb.data.read import paths_of, read_rows

    described = experiment.label and experiment.positive and experiment.sensitive
    if bool(like) == bool(experiment.schema) or not (experiment.schema or described):
        raise ConfigError(
            "a study needs to know the columns of its silos: by --schema FILE (fedfb schema infer "
            "writes one), or by --like (a file with the same columns) with --label (the column to "
            "predict), --positive (its favourable value) and --sensitive (the columns that form "
            "the groups)."
        )
    wanted = Wanted(
        experiment.label or "",
        experiment.positive or "",
        experiment.sensitive,
        ignore=experiment.ignore,
        bins=experiment.bins,
        merge=experiment.merge,
    )
    files = [read_rows(path) for path in paths_of(like)] if like else []
    return agreed_schema(files, wanted, experiment.schema)


study.command(cls=Sections)(init)


@study.command(cls=Sections)
def key(
    silo: Annotated[str, typer.Argument(help="The silo's name in the study.")],
    out: Annotated[Path, typer.Option(help="The folder for both files.")] = Path(),
) -> None:
    """Make a silo's own keys, so that nobody else ever holds them.

    Writes SILO.key, which stays here, and SILO.pub, which the coordinator is given for fedfb study
    init --keys. The silo then joins with --key SILO.key.

    Example: fedfb study key north
    """
    refuse_without("flower", "a study")
    from fedfb.study.keys import make_silo_keys, write_secret

    made = make_silo_keys()
    path = out / f"{silo}.key"
    write_secret(path, made._asdict())
    try:
        write_secret(out / f"{silo}.pub", {"silo": silo, **made.public._asdict()})
    except BaseException:
        path.unlink()  # nobody knows it yet, and another attempt would not write over it
        raise
    talk(f"{out / silo}.key stays here. Give {out / silo}.pub to the coordinator.")


def join(
    bundle: Annotated[Path, typer.Argument(help="The silo's bundle.")],
    data: Annotated[
        Path | None, typer.Option(help="The silo's own rows, a CSV or Parquet file.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The silo's own keys, if it made them (fedfb study key).")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Where the silo keeps what is its own (default: beside BUNDLE)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before joining.")] = False,
) -> None:
    """Take part in a study with one's own rows, which stay here.

    BUNDLE is the file that the coordinator has made for this silo. The rows are checked against the
    study's schema; then all that will be sent is shown, and asked for once.

    Example: fedfb join north.bundle --data north.csv
    """
    refuse_without("flower", "a study")
    from fedfb.study.disclosure import what_is_sent
    from fedfb.study.journal import state_of
    from fedfb.study.keys import read_bundle
    from fedfb.study.worker import Worker

    if data is None:
        raise ConfigError("fedfb join needs the silo's own rows: --data FILE.csv.")
    own = read_bundle(bundle, key)
    folder = state or state_of(bundle)
    worker = Worker(own, data, folder)
    try:
        rows = worker.open()
        typer.echo("\n".join(what_is_sent(own, data, rows["train"], rows["test"])))
        if not yes:
            typer.confirm("Join?", abort=True)
        from fedfb.study.transport.client import run_node

        run_node(own, worker, folder, talk)
    finally:
        worker.close()
    talk(f"The study is finished. Its model and report: fedfb fetch {bundle} --to FOLDER")


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
    from fedfb.study.journal import RUN
    from fedfb.study.keys import read_office
    from fedfb.study.results import report_lines
    from fedfb.study.transport.server import serve

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
    from fedfb.study.journal import EVENTS, RUN, read_events
    from fedfb.study.results import status_lines
    from fedfb.study.study import read_study

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
    from fedfb.experiments.run_folder import claim_empty, read_result
    from fedfb.experiments.shortfalls import first_sentences
    from fedfb.study.journal import RUN, state_of
    from fedfb.study.results import fetch

    if to is None:
        raise ConfigError("fedfb fetch needs a new folder to copy to: --to FOLDER.")
    folder = source.parent / RUN if source.suffix == ".toml" else state_of(source)
    with claim_empty(to, undo=True):
        found = [*fetch(folder, to), *_audit_page(to)]
        result = read_result(to, "a result as the study wrote it")
    for sentence in first_sentences([result]):
        typer.echo(sentence)
    talk(f"{to} holds {', '.join(found)}.")


def _audit_page(folder: Path) -> list[str]:
    """Write page and card of the audit that lies in a folder; return their names."""
    from msgspec import structs

    from fedfb.audit.card import make_card
    from fedfb.audit.result import read_audit
    from fedfb.cli.audit import AUDIT, CARD, PAGE, write_audit
    from fedfb.report.folder import read_folder
    from fedfb.report.html import check_tools

    if not (folder / AUDIT).exists():
        return []
    try:
        check_tools()
    except ConfigError as error:
        talk(f"The audit is left as {AUDIT}: {error}")
        return []
    audit, run = read_audit(folder / AUDIT), read_folder(folder).runs[0]
    write_audit(structs.replace(audit, card=make_card(audit, run, None)), folder)
    return [PAGE, CARD]
