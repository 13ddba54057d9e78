"""``fedfb study``: make a study, and keys for a silo."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedfb.cli.options import experiment_options, read_names
from fedfb.cli.progress import talk
from fedfb.cli.sections import Sections
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
    from fedfb.flower.bundle import create, read_public_keys
    from fedfb.flower.study import make_study
    from fedfb.flower.trial import check_study

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
    from fedfb.flower.bundle import write_secret
    from fedfb.flower.keys import make_silo_keys

    made = make_silo_keys()
    path = out / f"{silo}.key"
    write_secret(path, made._asdict())
    try:
        write_secret(out / f"{silo}.pub", {"silo": silo, **made.public._asdict()})
    except BaseException:
        path.unlink()  # nobody knows it yet, and another attempt would not write over it
        raise
    talk(f"{out / silo}.key stays here. Give {out / silo}.pub to the coordinator.")
