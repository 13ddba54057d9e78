"""Commands of a study on real machines: ``study``, ``serve``, ``join``, ``status`` and ``fetch``.

The server's user makes and serves a study. The user of a client makes keys and joins.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import (
    Query,
    Sections,
    dialect_options,
    experiment_options,
    read_names,
    talk,
)
from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.extras import refuse_without
from fedfb.tables.dialect import FLAGS, Dialect, Dialects

if TYPE_CHECKING:
    from fedfb.data.schema import Schema

study = typer.Typer(
    help="Make a study: many clients, one model, no row leaves.\n\n"
    "Example: fedfb study init triage --like template.csv --clients a,b,c ...",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dialect_options
@experiment_options(
    "data", "query", "client_column", "test", "partition", "clients", "groups", "heterogeneity",
    "q", "rows", "test_rows", "resplit", "cost", "dropout", "secure", "tune", "accuracy_floor",
    "leave_out_clients",
    *FLAGS,
)  # fmt: skip
def init(
    experiment: Experiment,
    dialect: Dialect,
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.")],
    like: Annotated[
        list[str] | None,
        typer.Option(help="In place of --schema: a file, or several ('*.csv'), like the clients'."),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", help="The names of the clients, separated by commas.")
    ] = "",
    silos: Annotated[str, typer.Option("--silos", hidden=True)] = "",
    address: Annotated[
        str,
        typer.Option(
            help="Where clients reach the server (default 127.0.0.1:9443).", show_default=False
        ),
    ] = "127.0.0.1:9443",
    name: Annotated[str | None, typer.Option(help="The study's name (default: FOLDER's).")] = None,
    least: Annotated[
        int | None,
        typer.Option(
            help="Clients that must answer, or the study stops (default: over two thirds)."
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds that one message may take (default 600).", show_default=False),
    ] = 600.0,
    wait: Annotated[
        float,
        typer.Option(help="Seconds to wait for clients (default 3600).", show_default=False),
    ] = 3600.0,
    keys: Annotated[
        str, typer.Option(help="Public keys (*.pub) of clients that made their own keys.")
    ] = "",
    single: Annotated[
        bool,
        typer.Option("--single", help="Allow methods that need the single upload of every client."),
    ] = False,
    achievable: Annotated[
        bool,
        typer.Option(
            "--achievable",
            help="Also report what fairness can be reached: every client shows its scores.",
        ),
    ] = False,
) -> None:
    """Make a study: its file, certificates, keys and bundles.

    FOLDER then holds study.toml to read, secrets/ for the server and bundles/, one for each client.
    Give each bundle to its client and to nobody else. Columns, categories and groups are those of
    the schema (fedfb schema infer), or are read from the files of --like. All clients know them. A
    study cannot be changed: make a new one.

    Example: fedfb study init triage --schema schema.toml --clients east,north,south,west

    Example: fedfb study init triage --like template.csv --label urgent --positive yes --sensitive
    sex,region --clients east,north,south,west
    """
    refuse_without("flower", "a study")
    from fedfb.study.keys import create, read_public_keys
    from fedfb.study.study import make_study
    from fedfb.study.trial import check_study

    clients = clients or silos  # its name before version 0.2
    if not clients:
        raise ConfigError("a study needs the names of its clients: --clients east,north,south.")
    schema = _read_schema(experiment, like or [], dialect)
    new_study = make_study(
        name or folder.resolve().name,
        address,
        tuple(read_names(clients, "--clients")),
        schema,
        experiment,
        least=least,
        timeout_s=timeout,
        wait_s=wait,
        single=single,
        achievable=achievable,
    )
    check_study(new_study)
    public_keys = dict(read_public_keys(Path(path)) for path in keys.split(",") if path)
    create(new_study, folder, public_keys)
    talk(
        f"{folder} holds the study. Read study.toml, give every client its bundle in "
        f"{folder / 'bundles'}, keep {folder / 'secrets'} secret, then: "
        f"fedfb serve {folder / 'study.toml'}"
    )


def _read_schema(experiment: Experiment, like: list[str], dialect: Dialect) -> "Schema":
    """Return the schema of the flag, or the schema of the files of --like."""
    from fedfb.data.conform import agreed_schema
    from fedfb.data.declare import Wanted
    from fedfb.tables.read import notes_of, try_files
    from fedfb.tables.sources import join_patterns

    described = experiment.label and experiment.positive and experiment.sensitive
    if bool(like) == bool(experiment.schema) or not (experiment.schema or described):
        raise ConfigError(
            "a study needs to know the columns of its clients: by --schema FILE (fedfb schema "
            "infer writes one), or by --like (a file with the same columns) with --label (the "
            "column to predict), --positive (its favourable value) and --sensitive (the columns "
            "that form the groups)."
        )
    wanted = Wanted(
        experiment.label or "",
        experiment.positive or "",
        experiment.sensitive,
        ignore=experiment.ignore,
        bins=experiment.bins,
        merge=experiment.merge,
        dates=experiment.dates,
    )
    files, problems = try_files(join_patterns(like), Dialects(dialect)) if like else ({}, [])
    for note in notes_of(files.values()):
        talk(note)
    return agreed_schema([*files.values()], wanted, experiment.schema, problems=problems)


study.command(cls=Sections)(init)


@study.command(cls=Sections)
def key(
    client: Annotated[str, typer.Argument(help="The name of the client in the study.")],
    out: Annotated[Path, typer.Option(help="The folder for both files.")] = Path(),
) -> None:
    """Make the keys of a client, so that nobody else ever holds them.

    Writes CLIENT.key, which stays on this machine, and CLIENT.pub, which the server needs for fedfb
    study init --keys. The client then joins with --key CLIENT.key.

    Example: fedfb study key north
    """
    refuse_without("flower", "a study")
    from fedfb.study.keys import make_private_keys, write_secret

    private_keys = make_private_keys()
    path = out / f"{client}.key"
    write_secret(path, private_keys._asdict())
    try:
        write_secret(out / f"{client}.pub", {"client": client, **private_keys.public._asdict()})
    except BaseException:
        path.unlink()  # nobody has the public half, and keys are never overwritten
        raise
    talk(f"{out / client}.key stays on this machine. Send {out / client}.pub to the server.")


@dialect_options
def join(
    bundle: Annotated[Path, typer.Argument(help="The bundle of this client.")],
    dialect: Dialect,
    data: Annotated[
        str | None,
        typer.Option(help="The rows of this client: a CSV or Parquet file, or a database."),
    ] = None,
    query: Query = None,
    key: Annotated[
        Path | None,
        typer.Option(help="The keys of this client, if it made them (fedfb study key)."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="The folder for the files of this client (default: beside BUNDLE)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before joining.")] = False,
) -> None:
    """Take part in a study with rows that stay on this machine.

    BUNDLE is the file that the server has made for this client. The command checks the rows against
    the schema of the study, shows what will be sent, and asks once before it joins.

    Example: fedfb join north.bundle --data north.csv
    """
    refuse_without("flower", "a study")
    from fedfb.study.disclosure import describe_uploads
    from fedfb.study.journal import locate_state
    from fedfb.study.keys import read_bundle
    from fedfb.study.worker import Worker
    from fedfb.tables.sources import is_stream, with_query

    if data is None:
        raise ConfigError("fedfb join needs the rows of this client: --data FILE.csv.")
    if is_stream(Path(data)):
        raise ConfigError(f"fedfb join needs its rows more than once: give a file, not {data}.")
    contents = read_bundle(bundle, key)
    folder = state or locate_state(bundle)
    data = with_query(data, query)
    worker = Worker(contents, data, folder, dialect)
    try:
        rows = worker.open()
        for note in rows["notes"]:
            talk(note)
        typer.echo("\n".join(describe_uploads(contents, data, rows["train"], rows["test"])))
        if not yes:
            typer.confirm("Join?", abort=True)
        from fedfb.study.transport.client import run_node

        run_node(contents, worker, folder, talk)
    finally:
        worker.close()
    talk(f"The study is finished. Its model and report: fedfb fetch {bundle} --to FOLDER")


StudyFile = Annotated[Path, typer.Argument(help="The study.toml that fedfb study init wrote.")]


def serve(
    file: StudyFile,
) -> None:
    """Serve a study: clients join, train, and get the model.

    FILE is the study.toml that fedfb study init wrote. A study that was stopped continues where it
    stopped: run the same command again.

    Example: fedfb serve triage/study.toml
    """
    refuse_without("flower", "a study")
    from fedfb.study.journal import RUN_FOLDER
    from fedfb.study.keys import read_server_secrets
    from fedfb.study.results import format_report
    from fedfb.study.transport.server import serve_study

    study, secrets = read_server_secrets(file)
    talk(f"Serving {study.name} on {study.address}, TLS and node authentication on. Join by")
    talk("  fedfb join CLIENT.bundle --data ROWS.csv")
    talk(f"Clients: {', '.join(study.clients)}. Ctrl-C stops; the same command continues.")
    report = serve_study(study, secrets, file.parent, talk)
    typer.echo("\n".join(format_report(report)))
    talk(f"Model, report and ledger are in {file.parent / RUN_FOLDER}; fedfb fetch copies them.")


def status(
    file: StudyFile,
) -> None:
    """Show how far a study is, and which clients are online.

    FILE is the study.toml on the server's machine.

    Example: fedfb status triage/study.toml
    """
    from fedfb.files import interpreting
    from fedfb.study.journal import EVENTS, RUN_FOLDER, read_events
    from fedfb.study.results import format_status
    from fedfb.study.study import read_study

    study = read_study(file)
    path = file.parent / RUN_FOLDER / EVENTS
    events = read_events(path)
    with interpreting(path, "the log of a study as fedfb serve writes it"):
        lines = list(format_status(study.name, study.clients, events))
    typer.echo("\n".join(lines))


def fetch(
    source: Annotated[Path, typer.Argument(help="A study.toml, or the bundle of a client.")],
    to: Annotated[Path | None, typer.Option(help="A new folder for the files.")] = None,
) -> None:
    """Copy the model, report, audit and ledger of a finished study.

    SOURCE is the study.toml (on the server) or the bundle (on a client, which has no ledger). fedfb
    predict, report, ledger and export read the folder that --to names. achievable.json holds what
    is achievable, if the study collects it.

    Example: fedfb fetch triage/study.toml --to result
    """
    from fedfb.experiments.run_folder import claim_empty, read_result
    from fedfb.experiments.shortfalls import first_sentences
    from fedfb.study.journal import RUN_FOLDER, locate_state
    from fedfb.study.results import fetch_results

    if to is None:
        raise ConfigError("fedfb fetch needs a new folder to copy to: --to FOLDER.")
    folder = source.parent / RUN_FOLDER if source.suffix == ".toml" else locate_state(source)
    with claim_empty(to, undo=True):
        names = [*fetch_results(folder, to), *_write_audit_page(to)]
        result = read_result(to, "a result as the study wrote it")
    for sentence in first_sentences([result]):
        typer.echo(sentence)
    talk(f"{to} holds {', '.join(names)}.")


def _write_audit_page(folder: Path) -> list[str]:
    """Write page and card of the audit in a folder; return their names."""
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
