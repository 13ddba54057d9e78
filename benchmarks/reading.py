"""From a file to a trained model: CPU time and peak memory, beside the reading of the file alone.

One round of one epoch, so that reading and encoding are most of it. Every figure is of a fresh
process from start to end; the peak is its own.
"""

import statistics
import sys
from pathlib import Path

import numpy as np
from measure import Sample, cpu, factor, in_turns, run, said, spread
from page import Claim, Section, table

TITLE = "Reading and encoding"

CATEGORIES = (5, 8, 11, 14)
NUMBERS = 8
AT_ONCE = 500_000
CLAIMED = 1_000_000

_ROLES = 'label="paid", positive="yes", sensitive="sex", client_column="bank"'
_PEAK = """
import json
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
print(); print(json.dumps({"mb": peak}))
"""
_RUN = f"""
import sys
from fedfb.cli.app import main
flags = "--label paid --positive yes --sensitive sex --client-column bank --rounds 1"
sys.argv = ["fedfb", "run", "--data", {{path!r}}, *flags.split(), "--local-epochs", "1"]
sys.argv += ["--lr", ".01", "--json"]
try:
    main()
except SystemExit:
    pass
{_PEAK.replace("{", "{{").replace("}", "}}")}"""
_FRAME = f"""
import fedfb, polars
frame = polars.read_parquet({{path!r}})
rows = fedfb.federation_from_frames(frame, {_ROLES}, precision="float32")
plan = fedfb.Experiment(data="frame.csv", {_ROLES.replace('"sex"', '("sex",)')}, rounds=1,
                        local_epochs=1, lr=(0.01,))
fedfb.run(plan, federations={{{{0: rows}}}}, warn=False)
{_PEAK.replace("{", "{{").replace("}", "}}")}"""
_ALONE = {
    "pyarrow": "from pyarrow import csv, parquet; rows = {arrow}({path!r})",
    "polars": "import polars; rows = polars.{polars}({path!r})",
}


def write(work: Path, rows: int) -> dict[str, Path]:
    """Write a table of 15 columns as CSV and as Parquet, a part at a time."""
    import pyarrow
    from pyarrow import csv, parquet

    paths = {form: work / f"rows-{rows}.{form}" for form in ("csv", "parquet")}
    schema = _draw(1, 0).schema
    with (
        csv.CSVWriter(paths["csv"], schema) as text,
        parquet.ParquetWriter(paths["parquet"], schema) as binary,
    ):
        for part, start in enumerate(range(0, rows, AT_ONCE)):
            drawn: pyarrow.Table = _draw(min(AT_ONCE, rows - start), part)
            text.write_table(drawn)
            binary.write_table(drawn)
    return paths


def _draw(rows: int, seed: int):
    import pyarrow

    rng = np.random.default_rng(seed)
    columns = {f"n{j}": np.round(rng.normal(j, 1 + j, rows), 4) for j in range(NUMBERS)}
    for j, words in enumerate(CATEGORIES):
        columns[f"c{j}"] = _words(rng.integers(0, words, rows), f"word{j}_")
    sex = rng.integers(0, 2, rows)
    paid = columns["n0"] + columns["n1"] - 1 + 0.5 * sex + rng.normal(0, 1, rows) > 0
    columns["sex"] = _words(sex, "sex")
    columns["bank"] = _words(rng.integers(0, 5, rows), "bank")
    columns["paid"] = np.where(paid, "yes", "no")
    return pyarrow.table(columns)


def _words(numbers, prefix: str):
    return np.char.add(prefix, numbers.astype(str))


def section(work: Path, quick: bool, large: bool = False) -> Section:
    for command in _commands(write(work, 1000)).values():
        run(command)  # keeps the bytecode, as an installed package has it
    sizes = (100_000,) if quick else (100_000, CLAIMED)
    rows, claims = [], ()
    for size in (*sizes, *([10_000_000] if large else [])):
        paths = write(work, size)
        samples = in_turns(_commands(paths), 1 if quick or size > CLAIMED else 5)
        rows += _rows(size, samples)
        if size == CLAIMED:
            claims = _claims(samples, paths)
        for path in paths.values():
            path.unlink()
    text = (
        f"`fedfb run --rounds 1 --local-epochs 1 --lr .01` on a table of 15 columns: {NUMBERS} "
        f"numbers, {len(CATEGORIES)} categories of {', '.join(map(str, CATEGORIES))} words, label, "
        "group and client; 46 features. Beside it, the reading of the same file into a table by "
        "pyarrow and by polars, and nothing else. The factor is to the reading by pyarrow. *Frame* "
        "is a frame of polars, read from Parquet."
    )
    head = ["rows", "what", "CPU s", "times pyarrow's reading", "peak memory, MB"]
    return Section(TITLE, f"{text}\n\n{table(head, rows)}", claims)


def _commands(paths: dict[str, Path]) -> dict[str, list[str]]:
    text, binary = str(paths["csv"]), str(paths["parquet"])
    programs = {
        "CSV, trained": _RUN.format(path=text),
        "Parquet, trained": _RUN.format(path=binary),
        "Frame, trained": _FRAME.format(path=binary),
    }
    for name, program in _ALONE.items():
        read = {"arrow": "csv.read_csv", "polars": "read_csv"}
        programs[f"CSV, {name} reads"] = program.format(path=text, **read) + _PEAK
        read = {"arrow": "parquet.read_table", "polars": "read_parquet"}
        programs[f"Parquet, {name} reads"] = program.format(path=binary, **read) + _PEAK
    return {name: [sys.executable, "-c", program] for name, program in programs.items()}


def _rows(size: int, samples: dict[str, list[Sample]]) -> list[list[str]]:
    rows = []
    for name, measured in sorted(samples.items()):
        form = "CSV" if name.startswith("CSV") else "Parquet"
        alone = cpu(samples[f"{form}, pyarrow reads"])
        peak = f"{max(said(measured, 'mb')):.0f}"
        times = str(factor(cpu(measured), alone))
        rows.append([f"{size:,}", name, spread(cpu(measured)), times, peak])
    return rows


def _claims(samples: dict[str, list[Sample]], paths: dict[str, Path]) -> tuple[Claim, ...]:
    csv, parquet = (samples[f"{form}, trained"] for form in ("CSV", "Parquet"))
    to_reading = factor(cpu(csv), cpu(samples["CSV, pyarrow reads"]))
    to_csv = factor(cpu(parquet), cpu(csv))
    matrix = CLAIMED * (NUMBERS + sum(CATEGORIES)) * 4 / 2**20
    shares = {}
    for form, measured in (("csv", csv), ("parquet", parquet)):
        file = paths[form].stat().st_size / 2**20
        shares[form] = (statistics.median(said(measured, "mb")) - file) / matrix
    return (
        Claim("times pyarrow's reading of a CSV of 1,000,000 rows, trained", "at most 5",
              str(to_reading), to_reading.median <= 5),
        Claim("CPU of Parquet to that of CSV, the same", "at most 0.6",
              str(to_csv), to_csv.median <= 0.6),
        Claim("peak memory without the file, to the float32 matrix, the same", "at most 2.5",
              f"{shares['csv']:.1f} (CSV), {shares['parquet']:.1f} (Parquet)",
              max(shares.values()) <= 2.5),
    )  # fmt: skip
