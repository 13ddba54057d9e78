"""Commands of a study on real machines: all under ``fedfb study``.

The server's user makes and serves a study. The user of a client makes keys, signs and joins.
"""

from collections.abc import Sequence
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
from fedfb.errors import ConfigError, escape_controls
from fedfb.experiments.spec import Experiment
from fedfb.extras import refuse_without
from fedfb.tables.dialect import FLAGS, Dialect, Dialects

if TYPE_CHECKING:
    from fedfb.data.schema import Schema
    from fedfb.study.keys import PublicKeys

NO_CLIENTS = (
    "a study needs the names of its clients, and their public keys: --keys "
    "east.pub,north.pub,south.pub. Every client makes its own: fedfb study key. For a trial on "
    "one machine: --trial --clients east,north,south."
)

study = typer.Typer(
    help="A study: many clients, one model, no row leaves.\n\n"
    "Example: fedfb study init triage --schema schema.toml --keys a.pub,b.pub,c.pub",
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
        str, typer.Option("--clients", help="The names of the clients (default: as in the keys).")
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
            help="With --allow-differences: clients in a sum at least (default: two thirds)."
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
        list[str] | None,
        typer.Option(help="The clients' public keys: .pub files, or a folder of them."),
    ] = None,
    trial: Annotated[
        bool,
        typer.Option("--trial", help="Make all keys here: for a trial, in which nobody is safe."),
    ] = False,
    allow_differences: Annotated[
        bool,
        typer.Option(
            "--allow-differences",
            help="Go on without clients that drop out: differences of sums show single values.",
        ),
    ] = False,
    processors: Annotated[
        str,
        typer.Option(
            help="same, or different: then the server sends broadcasts, compared to 1e-9."
        ),
    ] = "same",
    rows: Annotated[
        int | None,
        typer.Option(help="The largest number of rows of a client (default ten million)."),
    ] = None,
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
    """Make a study: one file that says all that will run, for every client to read and sign.

    FOLDER then holds study.toml for everybody, and secrets/ for the server. Columns, categories and
    groups are those of the schema (fedfb schema infer), or are read from the files of --like. Every
    client makes its own keys (fedfb study key) and sends its .pub file. A study cannot be changed:
    make a new one.

    Example: fedfb study init triage --schema schema.toml --keys east.pub,north.pub,south.pub

    Example: fedfb study init trial --trial --clients east,north,south --like template.csv --label
    urgent --positive yes --sensitive sex,region
    """
    refuse_without("study", "a study")
    from fedfb.study.folder import StudyFolder
    from fedfb.study.seal import code_version
    from fedfb.study.study import MOST_ROWS, VERIFIED_BYTES, make_study, refuse_address
    from fedfb.study.trial import check_study

    names = read_names(clients or silos, "--clients") if clients or silos else []
    refuse_address(address)
    if not (names or keys):
        raise ConfigError(NO_CLIENTS)
    schema = _read_schema(experiment, like or [], dialect)
    place, title = StudyFolder(folder), name or folder.resolve().name
    made = place.draw_keys(title, address, _split_paths(keys), names if trial else None)
    _refuse_other_names(names, made.clients)
    terms = {
        "name": title,
        "address": address,
        "code": code_version(),
        "trial": trial,
        "least": least,
        "allow_differences": allow_differences,
        "single": single,
        "achievable": achievable,
        "processors": processors,
        "rows": MOST_ROWS if rows is None else rows,
        "verified_bytes": VERIFIED_BYTES,
        "timeout_s": timeout,
        "wait_s": wait,
    }
    new_study = make_study(terms, schema, experiment, made.server.public, made.clients)
    check_study(new_study)
    place.create(new_study, made)
    talk(f"{folder / 'study.toml'} says all that will run; its seal is {new_study.seal[:16]}.")
    if trial:
        talk(
            "A TRIAL: this command has made the keys of all clients and signed for them. Whoever "
            "holds this folder can read all that clients send."
        )
    else:
        talk(
            "Give study.toml to every client. Each signs it (fedfb study sign) and sends its .sig "
            f"file back, to be put into {folder}."
        )
    talk(f"Then: fedfb study serve {folder / 'study.toml'}. Keep {folder / 'secrets'} secret.")


def _split_paths(values: list[str] | None) -> list[Path]:
    """Return the paths of a flag that may be given several times, each with commas."""
    return [Path(path) for value in values or [] for path in value.split(",") if path]


def _refuse_other_names(names: list[str], clients: Sequence["PublicKeys"]) -> None:
    """Refuse names that differ from those of the keys."""
    have = sorted(keys.name for keys in clients)
    if not have:
        raise ConfigError(NO_CLIENTS)
    if names and sorted(set(names)) != have:
        raise ConfigError(
            f"--clients says {', '.join(sorted(names))}, and there are keys of {', '.join(have)}. "
            "Leave out --clients, or name the right files: --keys."
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

    Writes CLIENT.key, which stays on this machine, and CLIENT.pub, which the server and all other
    clients need. Send CLIENT.pub to each of them over a channel in which you know each other.

    Example: fedfb study key north
    """
    refuse_without("study", "a study")
    from fedfb.study.keys import make_private_keys, write_keys

    keys = make_private_keys(client)
    private, public = write_keys(keys, out)
    talk(f"{private} stays on this machine. Send {public} to the server and to all clients.")
    talk(f"Its fingerprint, to be compared by telephone: {keys.public.fingerprint}")


StudyFile = Annotated[Path, typer.Argument(help="The study.toml that fedfb study init wrote.")]
KeyFile = Annotated[Path | None, typer.Option(help="The keys of this client (fedfb study key).")]
Pins = Annotated[
    list[str] | None,
    typer.Option(help="The other clients' .pub files, or a folder (default: that of --key)."),
]


def _read_pins(pins: list[str] | None, key: Path) -> "dict[str, PublicKeys]":
    from fedfb.study.keys import read_pins

    return read_pins(_split_paths(pins) or [key.parent])


@study.command(cls=Sections)
def show(
    file: StudyFile,
    pins: Pins = None,
) -> None:
    """Show a study: what will run, its seal, and the keys of all sides.

    With --pins the keys are compared with .pub files that the clients themselves sent. The exit
    code is 3 if one differs or is missing.

    Example: fedfb study show study.toml --pins keys/
    """
    refuse_without("study", "a study")
    from fedfb.study.disclosure import describe_study
    from fedfb.study.keys import read_pins
    from fedfb.study.seal import compare_pins
    from fedfb.study.study import read_study

    studied = read_study(file)
    typer.echo(escape_controls("\n".join(describe_study(studied))))
    if not pins:
        return
    problems = compare_pins(studied, read_pins(_split_paths(pins)), "")
    for problem in problems:
        typer.echo(escape_controls(f"NOT TRUSTED: {problem}."))
    if problems:
        raise typer.Exit(3)
    typer.echo("All keys are those of the .pub files.")


@study.command(cls=Sections)
def sign(
    file: StudyFile,
    key: KeyFile = None,
    pins: Pins = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for CLIENT.sig (default: that of FILE).")
    ] = None,
) -> None:
    """Sign a study, after comparing the keys in it with those of the other clients.

    Read study.toml first: the signature is the consent to all that it says. Writes CLIENT.sig, to
    be sent to the server's user.

    Example: fedfb study sign study.toml --key north.key
    """
    refuse_without("study", "a study")
    from fedfb.study.keys import read_private_keys
    from fedfb.study.seal import (
        SIGNATURE_SUFFIX,
        refuse_other_code,
        refuse_other_keys,
        sign_seal,
        write_signature,
    )
    from fedfb.study.study import read_study

    path = _require_key(key)
    studied, keys = read_study(file), read_private_keys(path)
    refuse_other_code(studied, str(file))
    refuse_other_keys(studied, keys, _read_pins(pins, path))
    signature = (out or file.parent) / f"{keys.public.name}{SIGNATURE_SUFFIX}"
    write_signature(sign_seal(studied, keys), signature)
    talk(f"{signature} is the signature on the seal {studied.seal[:16]}. Send it to the server.")


def _require_key(key: Path | None) -> Path:
    if key is None:
        raise ConfigError(
            "a client is known by its keys: --key CLIENT.key (fedfb study key makes them)."
        )
    return key


@dialect_options
def join(
    file: StudyFile,
    dialect: Dialect,
    data: Annotated[
        str | None,
        typer.Option(help="The rows of this client: a CSV or Parquet file, or a database."),
    ] = None,
    query: Query = None,
    key: KeyFile = None,
    pins: Pins = None,
    state: Annotated[
        Path | None,
        typer.Option(help="The folder for this client's files (default: CLIENT.state by --key)."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Join although the rows took part in a study with other clients."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before joining.")] = False,
) -> None:
    """Take part in a study with rows that stay on this machine.

    FILE is the study.toml that all clients have signed. The command checks the rows against the
    schema of the study, shows what will be sent, and asks once before it joins. From then on it
    runs the program of the study, and answers nothing that the program does not ask. CLIENT.state
    holds the model, the report, the audit and the ledger, which this client makes itself.

    Example: fedfb study join study.toml --data north.csv --key north.key
    """
    refuse_without("study", "a study")
    from fedfb.study.client import join_study
    from fedfb.study.disclosure import describe_uploads, estimate_response
    from fedfb.study.keys import read_private_keys
    from fedfb.study.past import check_past
    from fedfb.study.seal import refuse_other_code, refuse_other_keys
    from fedfb.study.study import read_study
    from fedfb.study.transport import GrpcLink
    from fedfb.study.trial import join_tables, open_rows
    from fedfb.tables.address import hide
    from fedfb.tables.sources import is_stream, with_query

    if data is None:
        raise ConfigError("fedfb study join needs the rows of this client: --data FILE.csv.")
    if is_stream(Path(data)):
        raise ConfigError(
            f"fedfb study join needs its rows more than once: give a file, not {data}."
        )
    path = _require_key(key)
    studied, keys = read_study(file), read_private_keys(path)
    pinned, name = _read_pins(pins, path), keys.public.name
    refuse_other_code(studied, str(file))
    refuse_other_keys(studied, keys, pinned)
    source = with_query(data, query)
    rows = open_rows(studied, studied.names.index(name), source, dialect)
    for note in rows.notes:
        talk(note)
    place = hide(str(source)) if "://" in data else str(Path(data).resolve())
    shown = list(describe_uploads(studied, name, hide(str(source)), rows))
    typer.echo(escape_controls("\n".join(shown)))
    check_past(studied, join_tables(rows), place, again)
    if not yes:
        typer.confirm("Join?", abort=True)
    folder = state or path.with_name(f"{name}.state")
    link = GrpcLink(studied, keys, talk, estimate_response(studied))
    try:
        join_study(studied, keys, pinned, rows, folder, link, talk, shown)
    finally:
        link.close()
    talk(f"The study is finished. {folder} holds its model, report, audit and ledger.")


def serve(
    file: StudyFile,
    bind: Annotated[
        str | None,
        typer.Option(help="host:port to listen on (default: the study's port everywhere)."),
    ] = None,
) -> None:
    """Serve a study: carry messages between its clients, and add up.

    FILE is the study.toml that fedfb study init wrote; the .sig files of all clients lie beside it.
    A study that was stopped continues where it stopped: run the same command again.

    Example: fedfb study serve triage/study.toml
    """
    refuse_without("study", "a study")
    from fedfb.experiments.run_folder import read_result
    from fedfb.study.disclosure import describe_warnings, estimate_request
    from fedfb.study.folder import StudyFolder
    from fedfb.study.results import format_report
    from fedfb.study.seal import check_signatures, refuse_other_code
    from fedfb.study.server import serve_study
    from fedfb.study.transport import GrpcServer

    place = StudyFolder(file.parent)
    studied, keys, signatures = place.read(file)
    refuse_other_code(studied, str(file))
    check_signatures(studied, signatures)
    for warning in describe_warnings(studied):
        talk(warning)
    talk(f"Serving {studied.name} (seal {studied.seal[:16]}) on {bind or studied.terms.address}.")
    talk(f"Clients: {', '.join(studied.names)}. Each joins by:")
    talk("  fedfb study join study.toml --data ROWS.csv --key CLIENT.key")
    talk("Ctrl-C stops; the same command continues.")
    transport = GrpcServer(studied, keys, estimate_request(studied), bind)
    serve_study(studied, keys, signatures, place.run, transport, talk)
    result = read_result(place.run, "the result that this study has just written")
    typer.echo("\n".join(format_report(result)))
    talk(f"Model, report and ledger are in {place.run}; fedfb study fetch copies them.")


def status(
    file: StudyFile,
) -> None:
    """Show how far a study is, and which clients are online.

    FILE is the study.toml on the server's machine.

    Example: fedfb study status triage/study.toml
    """
    refuse_without("study", "a study")
    from fedfb.files import interpreting
    from fedfb.study.folder import StudyFolder
    from fedfb.study.journal import EVENTS, read_events
    from fedfb.study.results import format_status
    from fedfb.study.study import read_study

    studied = read_study(file)
    path = StudyFolder(file.parent).run / EVENTS
    events = read_events(path)
    with interpreting(path, "the log of a study as fedfb study serve writes it"):
        lines = list(format_status(studied.name, studied.names, events))
    typer.echo(escape_controls("\n".join(lines)))


def fetch(
    source: Annotated[
        Path, typer.Argument(help="A study.toml (on the server), or CLIENT.state (on a client).")
    ],
    to: Annotated[Path | None, typer.Option(help="A new folder for the files.")] = None,
) -> None:
    """Copy the model, report, audit and ledger of a finished study, without its journal.

    SOURCE is the study.toml on the server, or the folder CLIENT.state on a client: each has what it
    made itself. fedfb predict, report, ledger and export read the folder that --to names.
    achievable.json holds what is achievable, if the study collects it.

    Example: fedfb study fetch triage/study.toml --to result
    """
    refuse_without("study", "a study")
    from fedfb.experiments.run_folder import claim_empty, read_result
    from fedfb.experiments.shortfalls import first_sentences
    from fedfb.study.folder import StudyFolder
    from fedfb.study.results import fetch_results

    if to is None:
        raise ConfigError("fedfb study fetch needs a new folder to copy to: --to FOLDER.")
    folder = StudyFolder(source.parent).run if source.suffix == ".toml" else source
    with claim_empty(to, undo=True):
        names = [*fetch_results(folder, to), *_write_audit_page(to)]
        result = read_result(to, "a result as the study wrote it")
    for sentence in first_sentences([result]):
        typer.echo(sentence)
    talk(f"{to} holds {', '.join(names)}.")


for command in (join, serve, status, fetch):
    study.command(cls=Sections)(command)


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
