"""A study's report, and how far a study is, as lines of text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedfb.experiments.shortfalls import first_sentences
from fedfb.report.numbers import number


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Tell what a finished study came to: accuracy, disparities and groups of every run."""
    yield from first_sentences([report])
    for run in report["runs"]:
        settings = ", ".join(f"{name} {value:g}" for name, value in run["settings"].items())
        yield f"{report['algorithm']} ({report['notion'].replace('_', ' ')}), {settings}"
        yield f"  test rows of all silos  {sum(group['n'] for group in run['groups'])}"
        yield f"  accuracy                {number(run['accuracy'])}"
        for name, value in run["disparity"].items():
            if value is not None:
                low, high = run["interval"][name]
                ends = f"[{number(low)}, {number(high)}]"
                yield f"  {name.replace('_', ' '):22}  {number(value)}  {ends}"
        for group in run["groups"]:
            yield (
                f"  group {group['name']:16}  {group['n']} rows, accuracy "
                f"{number(group['accuracy'])}, decided positively {number(group['positive_rate'])}"
            )


def status_lines(
    study: str, silos: Sequence[str], events: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Tell the last round, what is known of every silo, and the last events."""
    served = max((i for i, e in enumerate(events) if e["event"] == "serving"), default=0)
    rounds = [e for e in events if e["event"] == "round" and e["phase"] == "run"]
    ended = [e for e in events[served:] if e["event"] in ("finished", "stopped")]
    done = f"{rounds[-1]['round']} of {rounds[-1]['rounds']} rounds" if rounds else "no round yet"
    yield f"{study}: {done}{', ' + ended[-1]['event'] if ended else ''}"
    for silo in silos:
        own = [e for e in events[served:] if e.get("silo") == silo]
        yield f"  {silo:12} {own[-1]['text'] if own else 'not seen yet'}"
    yield "last events:"
    for event in events[-5:]:
        yield f"  {event['time'][:19]}  {event['text']}"
