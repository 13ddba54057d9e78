"""A study: its clients, its settings and its columns, and how long the server waits."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedfb.algorithms import find_method
from fedfb.data.schema import Schema
from fedfb.data.schema_file import schema_from_values, schema_parts
from fedfb.errors import ConfigError, DisclosureError, unknown_name
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.files import read_text, toml_values
from fedfb.runtime.local import number_taking_part
from fedfb.runtime.secure import plan_for
from fedfb.secure import Plan
from fedfb.secure.graph import FEWEST_CLIENTS

DATA_SETTINGS = (
    *("data", "label", "positive", "sensitive", "client_column", "test", "partition"),
    *("schema", "ignore", "bins", "merge"),
)
"""Settings of an experiment that the schema and the clients of a study replace."""

STUDY_KEYS: dict[str, type] = {
    **{"name": str, "address": str, "clients": list, "least": int},
    **{"timeout_s": float, "wait_s": float, "single": bool, "achievable": bool},
}
"""The keys of study.toml besides its schema and its experiment, and their types."""

ALWAYS_WRITTEN = "sensitive_at_prediction"
"""The setting that a study states even if it has its default: all agree to it before they join."""

TYPE_NAMES = {
    **{str: "text in quotes", list: "a list of names", bool: "true or false"},
    **{int: "a whole number", float: "a number"},
}
"""The words for a type of TOML in errors."""

_EXPECTED = "a study.toml as fedfb study init writes it"
"""The end of an error about a study that cannot be read."""

_SCHEMA = "the study's schema"
"""The name of the schema in errors, wherever it was read."""


@dataclass(frozen=True)
class Study:
    """All that the server and the clients agree on.

    The id of a client is its place among the names. ``least`` clients must answer, or the run
    stops. ``timeout_s`` is how long one message may take, ``wait_s`` how long the server waits for
    clients. ``single`` allows tasks whose uploads the server receives one by one; uploads of all
    other tasks are summed securely. With ``achievable`` every client also shows how the scores of a
    plain model are distributed over its rows, by group.
    """

    name: str
    address: str
    clients: tuple[str, ...]
    least: int
    timeout_s: float
    wait_s: float
    single: bool
    achievable: bool
    schema: Schema
    experiment: Experiment

    @property
    def digest(self) -> str:
        """A short hash of all that a result depends on; a client with another digest is refused."""
        content = {
            "clients": self.clients,
            "single": self.single,
            "achievable": self.achievable,
            "schema": schema_parts(self.schema),
            "experiment": self.experiment.hash,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def fewest(self) -> int:
        """The smallest number of clients in a sum: ``least``, or all clients that a round asks."""
        drawn = number_taking_part(len(self.clients), self.experiment.participation)
        return min(self.least, drawn)

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
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self.address.rpartition(":")[2])

    def __post_init__(self) -> None:
        """Refuse a study that cannot be run."""
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"the address is {self.address!r}, expected host:port.")
        if self.clients != tuple(sorted(set(self.clients))):
            names = list(self.clients)
            raise ConfigError(f"the clients must be different names in order, got {names}.")
        fewest = plan_for(len(self.clients), 0).fewest
        if not fewest <= self.least <= len(self.clients):
            raise ConfigError(
                f"least is {self.least}: of {len(self.clients)} clients at least {fewest} must "
                "answer, or a server could separate the parts of a secure sum; at most all of them."
            )
        if self.fewest < FEWEST_CLIENTS:
            raise ConfigError(
                f"a round asks {self.fewest} clients, and a secure sum needs at least "
                f"{FEWEST_CLIENTS}. Add clients, or raise --participation."
            )
        if self.timeout_s <= 0 or self.wait_s <= 0:
            raise ConfigError("timeout_s and wait_s are seconds, more than 0.")
        if self.experiment.leave_out_clients:
            raise ConfigError(
                "a study trains one model, with all of its clients: leave_out_clients is for fedfb "
                "run, on rows in one place. Leave it out."
            )
        refuse_open(self.schema)


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


def make_study(
    name: str,
    address: str,
    clients: tuple[str, ...],
    schema: Schema,
    experiment: Experiment,
    *,
    least: int | None = None,
    timeout_s: float = 600.0,
    wait_s: float = 3600.0,
    single: bool = False,
    achievable: bool = False,
) -> Study:
    """Return a study with all settings that its method decides filled in.

    Args:
        name: the name of the study.
        address: host:port by which clients reach the server.
        clients: the names of the clients.
        schema: the columns of every client's file.
        experiment: method and settings; of its seeds only the first is used.
        least: how many clients must answer (default: over two thirds).
        timeout_s: how long one message may take, in seconds.
        wait_s: how long the server waits for clients, in seconds.
        single: allow tasks whose uploads the server receives one by one.
        achievable: also collect what fairness can be reached.
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
    if experiment.tune or experiment.cost is not None:
        raise ConfigError(
            "a study chooses only the learning rate on validation rows: --tune and --cost choose "
            "more settings. Give --lr, --target or --alpha."
        )
    # Only the schema describes the data; each further seed would be another study.
    default = Experiment()
    blank: dict[str, Any] = {field: getattr(default, field) for field in DATA_SETTINGS}
    blank["data"] = "clients/*.csv"
    ours = {"secure": True, "seeds": experiment.seeds[:1], **blank}
    declared = Experiment(**{**vars(resolve(experiment)), **ours})
    names = tuple(sorted(clients))
    if least is None:
        least = plan_for(len(names), 0).fewest
    schema = replace(schema, source=_SCHEMA)
    return Study(
        name, address, names, least, timeout_s, wait_s, single, achievable, schema, declared
    )


def make_study_plan(study: Study, clients: int) -> Plan:
    """Return the plan of a sum over so many clients, never below the minimum of the study."""
    plan = plan_for(clients, 0)
    fewest = max(plan.fewest, study.fewest)
    return plan._replace(fewest=fewest, dropouts=min(plan.dropouts, clients - fewest))


def refuse_single(study: Study, tasks: Mapping[str, str]) -> None:
    """Refuse a method that needs single uploads if the study does not allow them.

    Args:
        study: the study.
        tasks: how the uploads of each task are reduced, by the name of the task.
    """
    single = sorted(name for name, reduce in tasks.items() if reduce == "gather")
    if single and not study.single:
        raise DisclosureError(
            f"{study.experiment.algorithm} needs the single upload of every client to "
            f"{' and '.join(map(repr, single))}, and this study allows only sums. Choose a method "
            "that needs only sums (fedfb list --algorithms), or allow single uploads: "
            "fedfb study init --single."
        )


def study_to_toml(study: Study) -> str:
    """Return a study as TOML; ``study_from_toml`` returns an equal study."""
    defaults = asdict(Experiment())
    values = asdict(study.experiment).items()
    settings = {k: v for k, v in values if v != defaults[k] or k == ALWAYS_WRITTEN}
    top, *tables = schema_parts(study.schema, above="schema.")
    parts = [
        _lines({key: getattr(study, key) for key in STUDY_KEYS}),
        "[experiment]  # the settings of fedfb run\n" + _lines(settings),
        f"[schema]  # as in the file of fedfb schema infer\n{top}".rstrip(),
        *tables,
    ]
    return "\n\n".join(parts) + "\n"


def _lines(values: Mapping[str, Any]) -> str:
    # JSON and TOML write values the same way, except for one character.
    return "\n".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for name, value in values.items()
        if value is not None
    )


def read_study(path: Path) -> Study:
    """Read the file of a study."""
    return study_from_toml(read_text(path, _EXPECTED), str(path))


def study_from_toml(text: str, where: str) -> Study:
    """Read a study from its text; ``where`` is its file, for errors."""
    values = toml_values(text, where, _EXPECTED)
    for part in ("experiment", "schema"):
        if not isinstance(values.setdefault(part, {}), dict):
            raise ConfigError(f"{where}: {part} must be a table [{part}], got {values[part]!r}.")
    settings = values.pop("experiment")
    if ALWAYS_WRITTEN not in settings:
        raise ConfigError(
            f"{where} does not say whether the model reads the group ({ALWAYS_WRITTEN}). An "
            "earlier version of fedfb wrote the file, and meant yes. Make a new study: fedfb study "
            "init with --sensitive-at-prediction yes (as before) or no."
        )
    experiment = from_values(settings)
    try:
        schema = schema_from_values(values.pop("schema"), _SCHEMA)
    except ConfigError as error:
        raise ConfigError(f"{where}, schema: {error}") from None
    for name in values:
        if name not in STUDY_KEYS:
            unknown = unknown_name("setting of a study", name, STUDY_KEYS)
            raise ConfigError(f"{where}: {unknown}")
    missing = [name for name in STUDY_KEYS if name not in values]
    if missing:
        raise ConfigError(f"{where} lacks {' and '.join(missing)}. Make it by fedfb study init.")
    for name, type_ in STUDY_KEYS.items():
        if type(values[name]) not in (type_, *((int,) if type_ is float else ())):
            raise ConfigError(f"{where}: {name} is {values[name]!r}, expected {TYPE_NAMES[type_]}.")
    clients = tuple(map(str, values.pop("clients")))
    return Study(clients=clients, schema=schema, experiment=experiment, **values)
