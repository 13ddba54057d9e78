"""A study: who takes part, what is trained on which columns, and when to wait or to stop."""

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
from fedfb.secure.graph import FEWEST

OF_THE_DATA = (
    *("data", "label", "positive", "sensitive", "client_column", "test", "partition"),
    *("schema", "ignore", "bins", "merge"),
)
"""Settings of an experiment that a study's schema and silos take the place of."""

OWN: dict[str, type] = {
    **{"name": str, "address": str, "silos": list, "least": int},
    **{"timeout_s": float, "wait_s": float, "single": bool, "achievable": bool},
}
"""The settings of a study beside its schema and its experiment."""

STATED = "sensitive_at_prediction"
"""The setting that a study states also where it is as usual: all agree to it before they join."""

KINDS = {
    **{str: "text in quotes", list: "a list of names", bool: "true or false"},
    **{int: "a whole number", float: "a number"},
}
"""How a type of TOML is called."""

WRITTEN = "a study.toml as fedfb study init writes it"
"""How a sentence about a study that cannot be read ends."""

SCHEMA = "the study's schema"
"""What messages call it, wherever it was read."""


@dataclass(frozen=True)
class Study:
    """All that coordinator and silos agree upon. The id of a silo is its place among the names.

    ``least`` silos must answer, or the run stops; ``timeout_s`` is how long one message may take,
    ``wait_s`` how long to wait for silos. ``single`` allows a method's questions whose answers the
    coordinator sees one by one; all others are secure sums. With ``achievable`` every silo also
    shows how the scores of a plain model are spread over its rows, by group.
    """

    name: str
    address: str
    silos: tuple[str, ...]
    least: int
    timeout_s: float
    wait_s: float
    single: bool
    achievable: bool
    schema: Schema
    experiment: Experiment

    @property
    def digest(self) -> str:
        """A short name of all that a result depends on: who works on another study is refused."""
        content = {
            "silos": self.silos,
            "single": self.single,
            "achievable": self.achievable,
            "schema": schema_parts(self.schema),
            "experiment": self.experiment.hash,
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def fewest(self) -> int:
        """The fewest silos that a sum may be over: ``least``, or all whom a round asks."""
        asked = number_taking_part(len(self.silos), self.experiment.participation)
        return min(self.least, asked)

    @property
    def seed(self) -> int:
        """The one seed of the run."""
        return self.experiment.seeds[0]

    @property
    def split(self) -> int:
        """The seed by which every silo sets test rows aside."""
        return self.experiment.split_seed or 0

    @property
    def host(self) -> str:
        """The coordinator's name or number, as silos reach it."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The coordinator's port."""
        return int(self.address.rpartition(":")[2])

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"the address is {self.address!r}, expected host:port.")
        if self.silos != tuple(sorted(set(self.silos))):
            raise ConfigError(f"silos are different names in order, got {list(self.silos)}.")
        fewest = plan_for(len(self.silos), 0).fewest
        if not fewest <= self.least <= len(self.silos):
            raise ConfigError(
                f"least is {self.least}: of {len(self.silos)} silos at least {fewest} must answer, "
                "or a coordinator could take a secure sum apart; at most all of them."
            )
        if self.fewest < FEWEST:
            raise ConfigError(
                f"a round asks {self.fewest} silos, and a secure sum needs at least {FEWEST}. Add "
                "silos, or raise --participation."
            )
        if self.timeout_s <= 0 or self.wait_s <= 0:
            raise ConfigError("timeout_s and wait_s are seconds, more than 0.")
        refuse_open(self.schema)


def refuse_open(schema: Schema) -> None:
    """Refuse a schema that leaves to rows what all must know before any of them is read."""
    if schema.client is not None:
        raise ConfigError(
            f"the schema has the client column {schema.client!r}, and the clients of a study are "
            'its silos, a file each. Give the column the role "ignored", or leave out its client.'
        )
    for column in (*schema.of("feature"), *schema.of("sensitive")):
        if column.kind != "number" and not column.categories:
            raise ConfigError(
                f"the schema does not say which categories column {column.name!r} may hold. In a "
                "study nobody sees the rows of all: declare them (categories = [...])."
            )
    if not schema.of("feature"):
        raise ConfigError("no column of the schema is a feature. Add some.")


def make_study(
    name: str,
    address: str,
    silos: tuple[str, ...],
    schema: Schema,
    experiment: Experiment,
    *,
    least: int | None = None,
    timeout_s: float = 600.0,
    wait_s: float = 3600.0,
    single: bool = False,
    achievable: bool = False,
) -> Study:
    """Return a study with everything that its method decides filled in."""
    method = find_method(experiment.algorithm)
    if method.is_pooled(experiment.variant or method.variants[0]):
        raise ConfigError(
            f"{method.name} trains on all rows in one place, and here no row leaves its owner. "
            "Choose another method (fedfb list)."
        )
    if experiment.rest is not None:
        raise ConfigError(
            "--rest merges groups by how many rows they have, and the groups of a study are "
            "declared before any row is read. Merge them in the schema (merge), or leave --rest "
            "out: small groups are not compared (--minimum-group)."
        )
    if experiment.tune or experiment.cost is not None:
        raise ConfigError(
            "of a study's settings only the learning rate is chosen on validation rows: --tune and "
            "--cost try out many more. Give --lr, --target or --alpha."
        )
    # Of the data only the schema counts; seeds beyond the first are other studies.
    usual = Experiment()
    blank: dict[str, Any] = {field: getattr(usual, field) for field in OF_THE_DATA}
    blank["data"] = "silos/*.csv"
    settled = replace(resolve(experiment), secure=True, seeds=experiment.seeds[:1], **blank)
    in_order = tuple(sorted(silos))
    if least is None:
        least = plan_for(len(in_order), 0).fewest
    known = replace(schema, source=SCHEMA)
    return Study(
        name, address, in_order, least, timeout_s, wait_s, single, achievable, known, settled
    )


def plan_of(study: Study, asked: int) -> Plan:
    """Return the thresholds of a sum, never over fewer silos than the study says."""
    plan = plan_for(asked, 0)
    fewest = max(plan.fewest, study.fewest)
    return plan._replace(fewest=fewest, dropouts=min(plan.dropouts, asked - fewest))


def refuse_single(study: Study, tasks: Mapping[str, str]) -> None:
    """Refuse a method that needs single values where the study does not allow them."""
    single = sorted(name for name, reduce in tasks.items() if reduce == "gather")
    if single and not study.single:
        raise DisclosureError(
            f"{study.experiment.algorithm} needs every silo's own answer to "
            f"{' and '.join(map(repr, single))}, and this study allows only sums. Choose a method "
            "that needs only sums (fedfb list --algorithms), or allow it for all to see: "
            "fedfb study init --single."
        )


def study_to_toml(study: Study) -> str:
    """Write a study; reading it back gives an equal one."""
    usual = asdict(Experiment())
    values = asdict(study.experiment).items()
    settings = {k: v for k, v in values if v != usual[k] or k == STATED}
    top, *tables = schema_parts(study.schema, above="schema.")
    parts = [
        _lines({name: getattr(study, name) for name in OWN}),
        "[experiment]  # the settings of fedfb run\n" + _lines(settings),
        f"[schema]  # as in the file of fedfb schema infer\n{top}".rstrip(),
        *tables,
    ]
    return "\n\n".join(parts) + "\n"


def _lines(values: Mapping[str, Any]) -> str:
    # JSON's spelling is TOML's too, but for one character.
    return "\n".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for name, value in values.items()
        if value is not None
    )


def read_study(path: Path) -> Study:
    """Read a study's file."""
    return study_from_toml(read_text(path, WRITTEN), str(path))


def study_from_toml(text: str, where: str) -> Study:
    """Read a study from its text."""
    values = toml_values(text, where, WRITTEN)
    for part in ("experiment", "schema"):
        if not isinstance(values.setdefault(part, {}), dict):
            raise ConfigError(f"{where}: {part} must be a table [{part}], got {values[part]!r}.")
    settings = values.pop("experiment")
    if STATED not in settings:
        raise ConfigError(
            f"{where} does not say whether the group is given to the model ({STATED}). An earlier "
            "version of fedfb wrote it, and then meant yes. Make the study anew by fedfb study "
            "init, with --sensitive-at-prediction yes (as before) or no."
        )
    experiment = from_values(settings)
    try:
        schema = schema_from_values(values.pop("schema"), SCHEMA)
    except ConfigError as error:
        raise ConfigError(f"{where}, schema: {error}") from None
    for name in values:
        if name not in OWN:
            raise ConfigError(f"{where}: {unknown_name('setting of a study', name, OWN)}")
    missing = [name for name in OWN if name not in values]
    if missing:
        raise ConfigError(f"{where} lacks {' and '.join(missing)}. Make it by fedfb study init.")
    for name, kind in OWN.items():
        if type(values[name]) not in (kind, *((int,) if kind is float else ())):
            raise ConfigError(f"{where}: {name} is {values[name]!r}, expected {KINDS[kind]}.")
    silos = tuple(map(str, values.pop("silos")))
    return Study(silos=silos, schema=schema, experiment=experiment, **values)
