"""A federation from frames of pandas or polars, read as files are."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedfb.data.conform import agreed_schema
from fedfb.data.declare import Wanted
from fedfb.data.federation import Federation, settle_small_groups
from fedfb.data.loading import federate_cells
from fedfb.data.schema import Schema
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError
from fedfb.tables.cells import Cells, as_text
from fedfb.tables.dialect import DETECT
from fedfb.tables.marks import settle_numbers
from fedfb.tables.values import columns_of, is_frame

Frame = Any
"""A frame of pandas or polars, or a mapping of column names to lists or arrays."""


def federation_from_frames(
    frames: Mapping[str, Frame] | Frame,
    label: str = "",
    positive: Any = "",
    sensitive: str | Iterable[str] = (),
    *,
    client_column: str | None = None,
    ignore: Iterable[str] = (),
    bins: Iterable[str] = (),
    merge: Iterable[str] = (),
    dates: Iterable[str] = (),
    schema: str | Schema | None = None,
    partition: str = "paper",
    split_seed: int = 0,
    client_rows: int = 2,
    test: Frame | None = None,
    split: bool = True,
    sensitive_at_prediction: bool = False,
    minimum_group: int = 10,
    rest: str | None = None,
    labels: tuple[int, ...] = (),
    name: str = "frames",
    add: AddUp = add_in_clear,
    precision: str = "float64",
) -> Federation:
    """Make a federation of one frame per client, or of one frame dealt to clients.

    Values become the cells of a CSV file, so the result is that of the same files, to the bit.

    Args:
        frames: frames by client name, or one frame.
        label: column to predict.
        positive: its favourable value.
        sensitive: columns whose crossed values form the groups.
        client_column: column that names the client of a row.
        ignore: columns to leave out.
        bins: ranges of sensitive numbers, as ``"age: 25,40"``.
        merge: values to merge, as ``"race: Asian+Other=rest"``.
        dates: what is derived from dates, as ``"birth: year"``.
        schema: declares the columns in place of the arguments above: a schema, or its path.
        partition: how rows are dealt to clients, as text; 'paper': every frame is a client.
        split_seed: seed of all random choices about the data.
        client_rows: fewest rows of a client; clients with fewer sit out.
        test: test rows; None: every client's rows are split 7:3.
        split: whether to split. If False, and without ``test``, all rows are training rows.
        sensitive_at_prediction: whether the model reads the group.
        minimum_group: fewest training rows of a group that is compared.
        rest: name of the group that smaller groups become part of; None: they stay.
        labels: labels among whose rows a notion compares rates: (1,) for equal opportunity, (0, 1)
            for equalized odds. A group with few rows of one of them is small.
        name: name of the federation.
        add: adds the clients' uploads about their columns.
        precision: type of the numbers of the features; float32 halves the memory, and is enough
            for an experiment of that precision (the default).

    >>> rows = {"age": [31, 52, 40, 28], "sex": ["F", "M", "F", "M"], "paid": [1, 0, 0, 1]}
    >>> federation = federation_from_frames(rows, "paid", 1, "sex", split=False)
    >>> federation.feature_names, federation.clients[0].y.tolist()
    (('age',), [1, 0, 0, 1])
    """
    by_client = _split_by_client(frames, name)
    cells = {client: _read_frame(client, by_client[client]) for client in sorted(by_client)}
    wanted = Wanted(
        label,
        as_text(positive) or "",
        (sensitive,) if isinstance(sensitive, str) else tuple(sensitive),
        client_column,
        tuple(ignore),
        tuple(bins),
        tuple(merge),
        tuple(dates),
    )
    held = None if test is None else _read_frame("the test rows", test)
    federation = federate_cells(
        name,
        cells,
        agreed_schema(
            [*cells.values()],
            wanted,
            schema,
            test=held,
            clients=cells if partition == "paper" else None,
        ),
        partition=partition,
        split_seed=split_seed,
        client_rows=client_rows,
        test=held,
        split=split,
        sensitive_at_prediction=sensitive_at_prediction,
        rest=rest,
        add=add,
        precision=precision,
    )
    return settle_small_groups(federation, minimum_group, rest, labels)


def _read_frame(source: str, frame: Frame) -> Cells:
    """Return a frame as cells. Numbers in columns of text are read as those of a CSV file."""
    return settle_numbers(columns_of(source, frame), DETECT)


def _split_by_client(frames: Any, name: str) -> dict[str, Frame]:
    """Return frames by client. The columns of a single frame have no columns themselves."""
    if not isinstance(frames, Mapping):
        return {name: frames}
    if not frames:
        raise ConfigError("no frames were given. Expected {client: frame}, or one frame.")
    if not any(map(is_frame, frames.values())):
        return {name: frames}
    return {str(client): frame for client, frame in frames.items()}
