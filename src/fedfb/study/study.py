"""A study: all that its clients agree to before they join, as one file that they sign."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fedfb.algorithms import find_method
from fedfb.data.schema import Schema
from fedfb.data.schema_file import schema_from_values, schema_parts
from fedfb.errors import ConfigError, DisclosureError
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.files import interpreting, read_text, toml_values
from fedfb.models import is_own
from fedfb.runtime.local import drawn_places, number_taking_part
from fedfb.runtime.secure import plan_for
from fedfb.secure import Plan
from fedfb.secure.graph import FEWEST_CLIENTS
from fedfb.settings import setting_of
from fedfb.study.keys import PublicKeys, check_name

DATA_SETTINGS = (
    *("data", "label", "positive", "sensitive", "client_column", "test", "partition"),
    *("schema", "ignore", "bins", "merge"),
)
"""Settings of an experiment that the schema and the clients of a study replace."""

_EXPECTED = "a study.toml as fedfb study init writes it"
"""The end of an error about a study that cannot be read."""

_SCHEMA = "the study's schema"
"""The name of the schema in errors, wherever it was read."""

VERIFIED_BYTES = 16 << 20
"""The usual largest size of the evidence of a sum, which every client receives."""

MOST_ROWS = 10_000_000
"""The usual largest number of rows of a client."""

MEANINGS: Mapping[str, str] = {
    "name": "the name of the study",
    "address": "host:port by which clients reach the server",
    "code": "the version of fedfb that all sides run",
    "trial": "true: the server made the keys of all clients, and can read all that they send",
    "least": "the smallest number of clients in a sum",
    "allow_differences": "true: sums may be over different clients; their difference shows values "
    "of single clients",
    "single": "true: the server and all clients see single values of a client, where the method "
    "needs them",
    "achievable": "true: also shows how the scores of a plain model are distributed over the rows "
    "of each client",
    "processors": '"same": each side computes every broadcast to the bit; "different": the server '
    "sends them, and clients accept a relative difference of 1e-9",
    "rows": "the largest number of rows of a client",
    "verified_bytes": "every client checks every sum of which the evidence is not larger",
    "timeout_s": "how long one message may take, in seconds",
    "wait_s": "how long a side waits for others, in seconds",
}
"""The settings of study.toml besides experiment, schema and keys, in their order."""


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a study besides experiment, schema and keys: see ``MEANINGS``."""

    name: str
    address: str
    code: str
    trial: bool
    least: int
    allow_differences: bool
    single: bool
    achievable: bool
    processors: Literal["same", "different"]
    rows: Annotated[int, Meta(ge=2, le=1 << 40)]
    verified_bytes: Annotated[int, Meta(ge=0, le=1 << 40)]
    timeout_s: Annotated[float, Meta(gt=0)]
    wait_s: Annotated[float, Meta(gt=0)]


@dataclass(frozen=True)
class Study:
    """All that the server and the clients agree on.

    The id of a client is its place among the names.
    """

    terms: Terms
    experiment: Experiment
    schema: Schema
    server: PublicKeys
    clients: tuple[PublicKeys, ...]

    @cached_property
    def seal(self) -> str:
        """The SHA-256 of the study's file, as hexadecimal digits."""
        return hashlib.sha256(study_to_toml(self).encode()).hexdigest()

    @property
    def name(self) -> str:
        return self.terms.name

    @property
    def code(self) -> str:
        return self.terms.code

    @property
    def trial(self) -> bool:
        return self.terms.trial

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the clients, in the order of their ids."""
        return tuple(keys.name for keys in self.clients)

    def entry(self, name: str) -> PublicKeys:
        """Return the public keys of a client."""
        return self.clients[self.names.index(name)]

    @property
    def fewest(self) -> int:
        """The smallest number of clients in a sum: all, unless sums may differ in their clients."""
        drawn = number_taking_part(len(self.clients), self.experiment.participation)
        return min(self.terms.least, drawn)

    @property
    def seed(self) -> int:
        """The one seed of the run."""
        return self.experiment.seeds[0]

    @property
    def split(self) -> int:
        """The seed by which every client sets its test rows aside."""
        return self.experiment.split_seed or 0

    @property
    def host(self) -> str:
        """The name or address of the server, as clients reach it."""
        return self.terms.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self.terms.address.rpartition(":")[2])

    def draw(self, round: int, everybody: bool) -> tuple[int, ...]:
        """Return the clients that a round asks: all in the set-up and after the last round.

        Args:
            round: the number of the round; 0 is the set-up.
            everybody: whether the round asks all clients in any case.
        """
        share = 1.0 if everybody or not round else self.experiment.participation
        return tuple(drawn_places(len(self.clients), share, self.seed, round))

    def make_plan(self, clients: int) -> Plan:
        """Return the plan of a sum over so many clients, never below the minimum of the study."""
        plan = plan_for(clients, 0)
        fewest = max(plan.fewest, self.fewest)
        return plan._replace(fewest=fewest, dropouts=min(plan.dropouts, clients - fewest))

    def __post_init__(self) -> None:
        """Refuse a study that cannot be run."""
        terms, number = self.terms, len(self.clients)
        refuse_address(terms.address)
        if self.names != tuple(sorted(set(self.names))):
            raise ConfigError(f"the clients must be different names in order, got {self.names}.")
        for keys in self.clients:
            check_name(keys.name)
        if number < FEWEST_CLIENTS:
            raise ConfigError(
                f"the study has {number} clients, and a secure sum needs at least "
                f"{FEWEST_CLIENTS}: from the sum of two each learns the part of the other."
            )
        fewest = plan_for(number, 0).fewest if terms.allow_differences else number
        if not fewest <= terms.least <= number:
            raise ConfigError(
                f"least is {terms.least}: of {number} clients at least {fewest} must be in a sum"
                + (
                    ", or a server could separate its parts; at most all of them."
                    if terms.allow_differences
                    else ", because sums over different clients show single values. Allow that by "
                    "--allow-differences, or leave out --least."
                )
            )
        if self.experiment.participation < 1 and not terms.allow_differences:
            raise ConfigError(
                "with --participation below 1 every round sums over other clients, and the "
                "differences show values of single clients. Leave it out, or accept that by "
                "--allow-differences."
            )
        if self.fewest < FEWEST_CLIENTS:
            raise ConfigError(
                f"a round asks {self.fewest} clients, and a secure sum needs at least "
                f"{FEWEST_CLIENTS}. Add clients, or raise --participation."
            )
        if self.experiment.leave_out_clients:
            raise ConfigError(
                "a study trains one model, with all of its clients: leave_out_clients is for fedfb "
                "run, on rows in one place. Leave it out."
            )
        # Before anything else looks at the experiment: to make such a model is to import its code.
        if is_own(self.experiment.model):
            raise ConfigError(
                f"--model {self.experiment.model}: a study trains logistic or mlp. A torch model "
                "is a program, and every client would run it because the study names it."
            )
        refuse_open(self.schema)


def refuse_address(address: str) -> None:
    """Refuse an address that is not host:port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"the address is {address!r}, expected host:port.")


def refuse_open(schema: Schema) -> None:
    """Refuse a schema that does not declare what all must know before any row is read."""
    if schema.client is not None:
        raise ConfigError(
            f"the schema has the client column {schema.client!r}, and the clients of a study have "
            'a file each. Give the column the role "ignored", or leave out its client.'
        )
    for column in (*schema.of("feature"), *schema.of("sensitive")):
        if not column.is_number and not column.categories:
            raise ConfigError(
                f"the schema does not say which categories column {column.name!r} may hold. In a "
                "study nobody sees all rows: declare the categories (categories = [...])."
            )
    if not schema.of("feature"):
        raise ConfigError("no column of the schema is a feature. Add some.")


def declare_experiment(experiment: Experiment) -> Experiment:
    """Return the experiment of a study, with all settings that its method decides filled in.

    Only the schema describes the data. Of the seeds only the first is used: each further seed would
    be another study.
    """
    method = find_method(experiment.algorithm)
    if method.is_pooled(experiment.variant or method.variants[0]):
        raise ConfigError(
            f"{method.name} trains on all rows in one place, and in a study no row leaves its "
            "client. Choose another method (fedfb list)."
        )
    if experiment.rest is not None:
        raise ConfigError(
            "--rest merges groups by how many rows they have, and the groups of a study are "
            "declared before any row is read. Merge them in the schema (merge), or leave --rest "
            "out: small groups are not compared (--minimum-group)."
        )
    if experiment.features == "auto":
        raise ConfigError(
            "--features auto trains twice to choose, and a study trains what its clients have "
            "signed: give --features plain or binned."
        )
    if experiment.tune or experiment.cost is not None:
        raise ConfigError(
            "a study chooses only the learning rate on validation rows: --tune and --cost choose "
            "more settings. Give --lr, --target or --alpha."
        )
    default = Experiment()
    blank: dict[str, Any] = {field: getattr(default, field) for field in DATA_SETTINGS}
    blank["data"] = "clients/*.csv"
    ours = {"secure": True, "seeds": experiment.seeds[:1], **blank}
    return Experiment(**{**vars(resolve(experiment)), **ours})


def make_study(
    terms: Mapping[str, Any],
    schema: Schema,
    experiment: Experiment,
    server: PublicKeys,
    clients: Sequence[PublicKeys],
) -> Study:
    """Return a study.

    Args:
        terms: settings of ``Terms`` by name; ``least`` may be None, for the usual number.
        schema: the columns of every client's file.
        experiment: method and settings, declared here as a study needs them.
        server: the server's public keys.
        clients: the clients' public keys, in any order.
    """
    in_order = tuple(sorted(clients, key=lambda keys: keys.name))
    least = terms.get("least")
    if least is None:
        usual = plan_for(max(len(in_order), FEWEST_CLIENTS), 0).fewest
        least = usual if terms["allow_differences"] else len(in_order)
    settled = _convert_terms({**terms, "least": least}, "the study")
    declared = declare_experiment(experiment)
    return Study(settled, declared, _complete_schema(schema, declared), server, in_order)


def _complete_schema(schema: Schema, experiment: Experiment) -> Schema:
    """Return the schema of a study, with what its experiment says of features."""
    return replace(schema, source=_SCHEMA, steps=experiment.features == "binned")


def _convert_terms(values: Mapping[str, Any], where: str) -> Terms:
    try:
        return msgspec.convert(dict(values), Terms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}. Make it by fedfb study init.") from None


def refuse_single(study: Study, tasks: Mapping[str, str]) -> None:
    """Refuse a method that needs single uploads if the study does not allow them.

    Args:
        study: the study.
        tasks: how the uploads of each task are reduced, by the name of the task.
    """
    single = sorted(name for name, reduce in tasks.items() if reduce == "gather")
    if single and not study.terms.single:
        raise DisclosureError(
            f"{study.experiment.algorithm} needs the single upload of every client to "
            f"{' and '.join(map(repr, single))}, and this study allows only sums. Choose a method "
            "that needs only sums (fedfb list --algorithms), or allow single uploads: "
            "fedfb study init --single."
        )


_HEAD = """\
# A study of fedfb: all that will run. Every client reads this file, compares the keys in it with
# the .pub files that it got from the other clients, and signs it (fedfb study show, study sign).
# Nothing of it can be changed afterwards: a changed file is another study."""


def study_to_toml(study: Study) -> str:
    """Return a study as TOML; ``study_from_toml`` returns an equal study."""
    top, *tables = schema_parts(study.schema, above="schema.")
    parts = [
        _HEAD,
        _lines(msgspec.to_builtins(study.terms), MEANINGS.__getitem__),
        "[experiment]  # the settings of fedfb run, defaults included\n"
        + _lines(_settings(study.experiment), _meaning),
        f"[schema]  # as in the file of fedfb schema infer\n{top}".rstrip(),
        *tables,
        "[server]  # its public keys\n" + _lines(msgspec.to_builtins(study.server)),
        *(
            "[[clients]]  # its public keys\n" + _lines(msgspec.to_builtins(keys))
            for keys in study.clients
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _settings(experiment: Experiment) -> dict[str, Any]:
    return {declared.name: getattr(experiment, declared.name) for declared in fields(experiment)}


def _meaning(name: str) -> str:
    [declared] = [one for one in fields(Experiment) if one.name == name]
    return setting_of(declared).help


def _lines(values: Mapping[str, Any], meaning: Callable[[str], str] | None = None) -> str:
    """Write values one a line, with their meaning; a value that is not set is a comment."""
    lines = []
    for name, value in values.items():
        about = f"  # {meaning(name)}" if meaning else ""
        if value is None:
            lines.append(f"# {name} is not set{about}")
        else:
            # JSON and TOML write values the same way, except for one character.
            text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{name} = {text}{about}")
    return "\n".join(lines)


def read_study(path: Path) -> Study:
    """Read the file of a study."""
    return study_from_toml(read_text(path, _EXPECTED, sealed=False, most=1 << 26), str(path))


def study_from_toml(text: str, where: str) -> Study:
    """Read a study from its text; ``where`` is its file, for errors."""
    text = text.replace("\r\n", "\n")
    values = toml_values(text, where, _EXPECTED)
    parts = {name: values.pop(name, None) for name in ("experiment", "schema", "server", "clients")}
    missing = [name for name, part in parts.items() if not part]
    if missing:
        raise ConfigError(f"{where} lacks {' and '.join(missing)}. Make it by fedfb study init.")
    with interpreting(where, _EXPECTED):
        terms = _convert_terms(values, where)
        experiment = from_values(dict(parts["experiment"]))
        try:
            schema = schema_from_values(dict(parts["schema"]), _SCHEMA)
        except ConfigError as error:
            raise ConfigError(f"{where}, schema: {error}") from None
        server = msgspec.convert(parts["server"], PublicKeys).check()
        clients = msgspec.convert(parts["clients"], tuple[PublicKeys, ...])
        checked = tuple(keys.check() for keys in clients)
        study = Study(terms, experiment, _complete_schema(schema, experiment), server, checked)
    # What people read, comments too, must be what the seal says.
    if study_to_toml(study) != text:
        raise ConfigError(
            f"{where} is not as fedfb study init of this version wrote it: it was changed by hand, "
            f"or by another version (it says {terms.code}). Get the file again, or make a new "
            "study: fedfb study init."
        )
    return study
