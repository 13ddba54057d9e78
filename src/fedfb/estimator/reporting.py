"""The report of an estimator: that of ``fedfb run``, for any rows, as values or as a page."""

from pathlib import Path

from fedfb.core import Examples, Prediction
from fedfb.data.encode import Encoder
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.errors import ConfigError
from fedfb.experiments.evaluation import Record, evaluate
from fedfb.experiments.reporting import loss_figures, with_shortfalls
from fedfb.experiments.seeds import summarise_seeds
from fedfb.files import write_whole


def judged(
    report: Record, found: tuple[Prediction, Examples], groups: list[str], clients: list[str]
) -> Record:
    """Return the report with its figures taken on other rows than those of training."""
    [record] = evaluate(*found, groups, clients)
    prediction, examples = found
    loss = loss_figures(prediction.score[0], examples, None)
    one = {**report["runs"][0], **record, **loss}
    summary = summarise_seeds([one], shared=1.0)
    notes = [note for note in report["notes"] if note != ON_TRAINING_ROWS]
    return with_shortfalls(
        {
            **report,
            "runs": [one],
            "summary": summary,
            "summaries": [{"settings": one["settings"], **summary}],
            "notes": notes,
        }
    )


def write_page(report: Record, encoder: Encoder, path: Path) -> Path:
    """Write the report as a page, as ``fedfb report`` does; a file that is there is kept."""
    from fedfb.report.page.folder import Found, Run
    from fedfb.report.page.render import check_tools, render
    from fedfb.report.page.sections import make_page

    check_tools()
    if path.exists():
        raise ConfigError(f"{path} is there already. Give the name of a new file.")
    page = make_page(Found((Run(report, {}, len(encoder.feature_names), ()),)))
    write_whole(path, render(page))
    return path
