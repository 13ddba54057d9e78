"""The ledger of one side of a study. The journal holds its lines too: a kill loses none."""

from collections.abc import Sequence
from pathlib import Path

from fedfb.files import write_whole, writing
from fedfb.runtime.ledger import Entry, format_lines, read_ledger
from fedfb.study.exchange import Planned
from fedfb.study.journal import Journal
from fedfb.study.study import Study
from fedfb.study.trial import DATA


class StudyLedger:
    """The ledger file of one side."""

    def __init__(self, study: Study, path: Path) -> None:
        self._study, self._path = study, path
        self._begun = set[str]()

    def restore(self, journal: Journal) -> None:
        """Write the file as the journal has it."""
        write_whole(self._path, journal.ledger_lines())
        self._begun = {account.phase for account in read_ledger(self._path)}

    def format(self, planned: Planned, entries: Sequence[Entry]) -> str:
        """Return the lines of one exchange; the first of a phase names the clients."""
        study, phase = self._study, planned.phase
        seed = study.split if phase == DATA else study.seed
        first = phase not in self._begun
        self._begun.add(phase)
        return format_lines(phase, seed, entries, study.names if first else None)

    def append(self, text: str) -> None:
        """Append lines that the journal has."""
        with writing(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(text)
