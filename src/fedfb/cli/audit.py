"""``fedfb audit``: what a classifier does to groups, from tables of counts."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedfb.cli.options import Query, TrustCode, dialect_options, talk
from fedfb.errors import ConfigError
from fedfb.settings import flag_of, names
from fedfb.tables.dialect import Dialect
from fedfb.tables.sources import join_patterns, with_query

if TYPE_CHECKING:
    from fedfb.audit.model_rows import ModelChoice
    from fedfb.audit.result import Audit
    from fedfb.audit.rows import Subject
    from fedfb.experiments.result import Result

HIDDEN_LEFT_OUT = (
    "of {} of the {} clients that the run left out of training figures are hidden, as a cell has "
    "too few rows: so are those of all clients together"
)
AUDIT, PAGE, CARD, LEDGER = "audit.json", "audit.html", "model-card.md", "ledger.jsonl"
ROWS, MODEL, SCORES, AUDITING = "Rows", "Model", "Scores file", "Audit"


@dialect_options
def audit(
    dialect: Dialect,
    model: Annotated[
        Path | None, typer.Argument(help="The --out folder of a finished run.")
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            help="In place of a model: a CSV of scores or decisions; 'scores/*.csv', one a client.",
            rich_help_panel=SCORES,
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="Its column of scores, chances from 0 to 1.", rich_help_panel=SCORES),
    ] = None,
    decision: Annotated[
        str | None, typer.Option(help="Its column of decisions, 0 or 1.", rich_help_panel=SCORES)
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Scores from here on are favourable decisions (default .5).",
            rich_help_panel=SCORES,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Files to audit on, such as 'clients/*.csv' (default: the run's own test rows).",
            rich_help_panel=ROWS,
        ),
    ] = None,
    query: Query = None,
    label: Annotated[
        str | None, typer.Option(help="The column of the label.", rich_help_panel=ROWS)
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="Its favourable value.", rich_help_panel=ROWS)
    ] = None,
    sensitive: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,..",
            help="Sensitive columns; several are crossed. Of a model: as in its run.",
            rich_help_panel=ROWS,
        ),
    ] = None,
    client_column: Annotated[
        str | None,
        typer.Option(
            help="The column that names the client (default: a client is a file).",
            rich_help_panel=ROWS,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The model of this seed (default: the run's first).",
            rich_help_panel=MODEL,
        ),
    ] = None,
    setting: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Which setting of a grid, from 0 (default 0).", rich_help_panel=MODEL
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Compare with another run's folder (or scores file) on the same rows.",
            rich_help_panel=AUDITING,
        ),
    ] = None,
    minimum: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Hide counts of fewer rows (default 10).",
            show_default=False,
            rich_help_panel=AUDITING,
        ),
    ] = 10,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Mask the clients' tables: only their sum is known. 3 clients or more.",
            rich_help_panel=AUDITING,
        ),
    ] = False,
    mix: Annotated[
        str,
        typer.Option(
            metavar="given|drawn",
            help="Whether the groups' shares of rows are given, or were drawn (default drawn).",
            show_default=False,
            rich_help_panel=AUDITING,
        ),
    ] = "drawn",
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink",
            help="Add rates of crossed groups, shrunk towards those of each attribute.",
            rich_help_panel=AUDITING,
        ),
    ] = False,
    intended_use: Annotated[
        str | None,
        typer.Option(help="For the model card: what it is for.", rich_help_panel=AUDITING),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Write {AUDIT}, {PAGE} and {CARD} into this new folder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Audit a model, or a file of scores, by group and client.

    MODEL is the --out folder of a finished run. Clients upload tables of counts; no row moves.
    The output has rates by group and client, four notions with intervals, calibration, what chance
    would show, and what each client adds. --out adds a page and a model card.

    Example: fedfb audit runs/mine --out audits/mine

    Example: fedfb audit --scores scores.csv --score p --label y --positive 1 --sensitive sex
    """
    from msgspec import structs

    from fedfb.audit.card import make_card
    from fedfb.audit.model_rows import ModelChoice
    from fedfb.audit.record import audit as make_audit
    from fedfb.audit.result import encode_audit
    from fedfb.audit.text import print_audit
    from fedfb.data.statistics import add_in_clear
    from fedfb.experiments.run_folder import claim_empty
    from fedfb.experiments.secure import make_audit_add
    from fedfb.report.folder import read_folder
    from fedfb.report.html import check_tools

    if mix not in ("given", "drawn"):
        raise ConfigError(f"--mix is {mix!r}, expected given or drawn.")
    data_files, score_files = (join_patterns(files) if files else None for files in (data, scores))
    if (model is None) == (score_files is None):
        raise ConfigError(
            "name what to audit: the folder of a run (fedfb audit runs/mine) or a file of scores "
            "(--scores FILE), one of both."
        )
    if out is not None:
        check_tools()
    if data_files is not None:
        data_files = with_query(data_files, query)
    elif score_files is not None:
        score_files = with_query(score_files, query)
    elif query is not None:
        raise ConfigError("--query asks a database: name it with --data, or leave --query out.")
    columns = _drop_none(label=label, positive=positive, client=client_column)
    crossed = names(sensitive) if sensitive is not None else None
    if model is not None:
        _refuse("a model", score=score, decision=decision, threshold=threshold)
        choice = ModelChoice(
            data_files,
            **columns,
            seed=seed,
            setting=setting or 0,
            dialect=dialect,
            trust_code=trust_code,
        )
        subject = _read_model(model, choice, crossed, baseline)
    else:
        _refuse(
            "a scores file",
            data=data_files,
            seed=seed,
            setting=setting,
            trust_code=trust_code or None,
        )
        if decision is not None:
            _refuse("a column of decisions", threshold=threshold)
        more = _drop_none(score=score, decision=decision, threshold=threshold)
        subject = _read_scores(score_files or "", {**columns, **more}, crossed, baseline, dialect)
    with claim_empty(out, undo=True) if out else nullcontext():
        ledger = out / LEDGER if out else None
        add = make_audit_add(secure, ledger) if secure or ledger else add_in_clear
        result = make_audit(subject, minimum, secure=secure, drawn_mix=mix == "drawn", add=add)
        if shrink:
            from fedfb.audit.shrink import add_shrinkage

            result = add_shrinkage(result)
        run = read_folder(model).runs[0] if model is not None else None
        if run is not None:
            result = add_left_out(result, run.result, seed, setting or 0)
        result = structs.replace(result, card=make_card(result, run, intended_use))
        if out:
            write_audit(result, out)
    if out:
        talk(f"The audit is in {out}: {AUDIT}, {PAGE}, {CARD}, and {LEDGER} of what was sent.")
    if as_json:
        typer.echo(encode_audit(result))
    else:
        print_audit(result)


def add_left_out(audit: "Audit", run: "Result", seed: int | None, setting: int) -> "Audit":
    """Return an audit with what its run found on clients that it left out of training.

    Args:
        audit: of one of the run's models; on other rows than the run's test rows nothing is added.
        run: the result of the run.
        seed: of the model; None: the first.
        setting: its place in the grid.
    """
    from msgspec import structs

    from fedfb.audit.model_rows import TEST_ROWS
    from fedfb.audit.optional import describe_left_out
    from fedfb.experiments.seed_result import EVERYONE

    if not audit.rows.startswith(TEST_ROWS) or audit.notion is None:
        return audit
    by_seed = {of_seed.seed: of_seed for of_seed in run.runs_of(setting)}
    of_model = by_seed[run.seeds[0] if seed is None else seed]
    left_out = describe_left_out(of_model, audit.notion, audit.minimum, audit.secure)
    if left_out is None or of_model.leave_out is None:
        return audit
    clients = 0 if audit.secure else len(of_model.leave_out.clients)
    hidden = clients - sum(part.name != EVERYONE for part in left_out)
    notes = [HIDDEN_LEFT_OUT.format(hidden, clients)] if hidden else []
    return structs.replace(audit, left_out=left_out, notes=(*audit.notes, *notes))


def _drop_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _refuse(what: str, **values: Any) -> None:
    for name in _drop_none(**values):
        raise ConfigError(f"{flag_of(name)} does not apply to {what}. Leave it out.")


def _read_model(
    folder: Path, choice: "ModelChoice", crossed: tuple[str, ...] | None, baseline: str | None
) -> "Subject":
    from fedfb.audit.model_rows import model_subject
    from fedfb.audit.scores_file import check_column_names

    sensitive = () if crossed is None else check_column_names(crossed)
    other = None if baseline is None else Path(baseline)
    return model_subject(folder, choice._replace(sensitive=sensitive), other)


def _read_scores(
    scores: str,
    columns: dict[str, Any],
    crossed: tuple[str, ...] | None,
    baseline: str | None,
    dialect: Dialect,
) -> "Subject":
    from fedfb.audit.scores_file import Columns, check_column_names, scores_subject

    for name in ("label", "positive"):
        if name not in columns:
            raise ConfigError(f"a scores file needs --{name}: see fedfb audit --help.")
    named = Columns(**columns, sensitive=check_column_names(crossed or ()))
    return scores_subject(scores, named, baseline, dialect)


def write_audit(audit: "Audit", out: Path) -> None:
    """Write an audit into a folder, as JSON, as a page and as a model card."""
    from fedfb.audit.card import card_as_markdown
    from fedfb.audit.page import audit_page
    from fedfb.audit.result import audit_values
    from fedfb.files import write_json, write_whole
    from fedfb.report.html import render

    write_whole(out / CARD, card_as_markdown(audit.name, audit.card or {}))
    write_whole(out / PAGE, render(audit_page(audit)))
    write_json(out / AUDIT, audit_values(audit))
