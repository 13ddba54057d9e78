"""How everything here is measured: fresh processes, taken in turns, in CPU time.

The machine may be shared and its clock may change. So what is compared is run in turns (the order
turned round every time), each time in a fresh process, and compared by the CPU time of that process
and its children. A factor is the median of the turns' own ratios, with the smallest and largest.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PEERS_PYTHON = HERE / ".venv" / "bin" / "python"
"""The environment of what fedfb is compared with; `make bench` sets it up."""

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}


class Sample(NamedTuple):
    """One process: what it took from start to end, and what it said of itself."""

    cpu_s: float
    wall_s: float
    said: dict[str, Any]


class Factor(NamedTuple):
    """How many times more one thing takes than another: median, smallest and largest of all turns.

    >>> print(factor([2.0, 4.0, 3.0], [1.0, 1.0, 1.0]))
    3 (2 to 4)
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return spread([self.low, self.median, self.high])


def factor(more: Sequence[float], less: Sequence[float]) -> Factor:
    return middle([a / b for a, b in zip(more, less, strict=True)])


def middle(ratios: Sequence[float]) -> Factor:
    return Factor(statistics.median(ratios), min(ratios), max(ratios))


def run(command: Sequence[str | Path]) -> Sample:
    """Run a command to its end; its last line, as JSON, is what it says of itself."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(command[0]),
        )
        output = process.stdout.read()
        process.stdout.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{command} ended with {process.returncode}:\n{errors.read()}")
    said = json.loads(output.splitlines()[-1]) if output.strip() else {}
    return Sample(used.ru_utime + used.ru_stime, time.monotonic() - start, said)


def environment(program: str | Path) -> dict[str, str]:
    """Return the environment of a measured process: one BLAS thread, bytecode kept.

    An installed package has its bytecode; a source tree under test may be told to keep none.
    """
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ours = {"PYTHONPYCACHEPREFIX": str(HERE / "__pycache__" / "measured")}
    return {**kept, **ONE_THREAD, **(ours if str(program) == sys.executable else {})}


def peak_mb() -> float:
    """Return this process's peak memory so far.

    What the system tells of a child (``ru_maxrss``) is at least what its parent held.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def in_turns(commands: Mapping[str, Sequence[str | Path]], repeats: int) -> dict[str, list[Sample]]:
    """Run every command once a turn, the order turned round each time."""
    samples: dict[str, list[Sample]] = {name: [] for name in commands}
    for turn in range(repeats):
        for name in list(commands)[:: -1 if turn % 2 else 1]:
            samples[name].append(run(commands[name]))
            print(f"  {name}: {samples[name][-1].cpu_s:.2f} s CPU", file=sys.stderr)
    return samples


def peer_versions(*names: str) -> str:
    """Return the versions of what fedfb is compared with; refuse with a reason where one lacks."""
    if not PEERS_PYTHON.exists():
        raise MissingError("the benchmark's own environment is not set up (make bench)")
    asked = "import sys; from importlib.metadata import version; "
    asked += "print(', '.join(f'{name} {version(name)}' for name in sys.argv[1:]))"
    found = subprocess.run([PEERS_PYTHON, "-c", asked, *names], capture_output=True, text=True)
    if found.returncode:
        raise MissingError(found.stderr.splitlines()[-1])
    return found.stdout.strip()


class MissingError(Exception):
    """What a section would measure cannot be run here, and why."""


def said(samples: Sequence[Sample], name: str) -> list[float]:
    return [sample.said[name] for sample in samples]


def cpu(samples: Sequence[Sample]) -> list[float]:
    return [sample.cpu_s for sample in samples]


def short(number: float) -> str:
    """Write a number with two digits that matter, and no fewer than it has before the point.

    >>> short(537.4), short(1.84), short(0.0273), short(0)
    ('537', '1.8', '0.027', '0')
    """
    return f"{number:.0f}" if abs(number) >= 10 else f"{number:.2g}"


def spread(values: Sequence[float]) -> str:
    """Write the median, and where they differ the smallest and the largest.

    >>> spread([1.0, 1.2, 3.0]), spread([2.5])
    ('1.2 (1 to 3)', '2.5')
    """
    middle, low, high = (short(v) for v in (statistics.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
