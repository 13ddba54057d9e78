"""Tables that every contestant reads: one folder of plain arrays, rows sorted by client.

``x.npy`` (float32), ``y.npy``, ``group.npy`` and ``sizes.npy``, the number of rows of each client.
fedfb reads x as a memory map, so a table may be larger than what training holds of it.
"""

from pathlib import Path

import numpy as np

from fedfb.core import ClientData, Examples
from fedfb.data import Federation, load
from fedfb.experiments.spec import Experiment

DRAWN_AT_ONCE = 100_000


def encoded(folder: Path, data: str, *, dense: bool = False) -> Path:
    """Write a built-in data set as fedfb encodes it; dense: with every zero moved off zero."""
    clients = load(Experiment(data=data, sensitive_at_prediction=True).request, 0).clients
    x = np.concatenate([client.x for client in clients]).astype(np.float32)
    if dense:
        x[x == 0] = 1e-3
    y = np.concatenate([client.y for client in clients])
    group = np.concatenate([client.group for client in clients])
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder, y, group, [len(client.y) for client in clients])
    np.save(folder / "x.npy", x)
    return folder


def drawn(folder: Path, *, rows: int, features: int, clients: int, groups: int) -> Path:
    """Draw a table whose labels follow its rows, a part at a time: it never stands in memory."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, features))
    y, group = np.empty(rows, np.int32), rng.integers(0, groups, rows, np.int32)
    direction = rng.standard_normal(features).astype(np.float32) / features**0.5
    for start in range(0, rows, DRAWN_AT_ONCE):
        part = slice(start, min(start + DRAWN_AT_ONCE, rows))
        size = (part.stop - start, features)
        x[part] = rng.standard_normal(size, np.float32)
        noise = rng.standard_normal(size[0], np.float32)
        y[part] = x[part] @ direction + 0.5 * noise + 0.3 * (group[part] % 2) > 0
    x.flush()
    _save(folder, y, group, [len(part) for part in np.array_split(y, clients)])
    return folder


def read(folder: Path) -> Federation:
    """Return a table as a federation; its clients' rows are views of the mapped file."""
    # As a plain array: cutting minibatches out of a memmap object costs Python time on each.
    x = np.asarray(np.load(folder / "x.npy", mmap_mode="r"))
    y, group, sizes = (np.load(folder / f"{name}.npy") for name in ("y", "group", "sizes"))
    ends = np.cumsum(sizes)
    groups = int(group.max()) + 1
    clients = tuple(
        ClientData(
            number, x[end - size : end], y[end - size : end], group[end - size : end], groups
        )
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
    )
    few = slice(0, 2000)
    return Federation(
        name=folder.name,
        clients=clients,
        test=Examples(np.array(x[few]), y[few], group[few], np.zeros(len(y[few]), np.int64)),
        group_names=tuple(map(str, range(groups))),
        client_names=tuple(map(str, range(len(clients)))),
        feature_names=tuple(map(str, range(x.shape[1]))),
        encoder=None,
    )


def _save(folder: Path, y: np.ndarray, group: np.ndarray, sizes: list[int]) -> None:
    for name, values in (("y", y), ("group", group), ("sizes", np.array(sizes))):
        np.save(folder / f"{name}.npy", values)
