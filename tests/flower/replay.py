"""An undisturbed run over the same participants: what a study's log says, worked out in one place.

No messages and no masks: for every question the fixed-point sum over those who were in it.
"""

import numpy as np

from fedfb.data.statistics import answer, column_values, spread_by
from fedfb.experiments.secure import column_question
from fedfb.flower.events import EVENTS, read_events
from fedfb.flower.silo import prepare
from fedfb.flower.study import read_study
from fedfb.flower.trial import make_trial
from fedfb.flower.wire import pack_values
from fedfb.runtime.boundary import reduce_uploads
from fedfb.runtime.loop import conduct
from fedfb.runtime.uploads import encoded, joined, parts_of
from fedfb.secure import decode, make_schema
from flower.by_hand import open_silos


def schedule(study):
    """Return who was asked and who counted, by round and question; the data phase is round -1."""
    found = {}
    for event in read_events(study.parent / "run" / EVENTS):
        if event["event"] == "answered":
            round = -1 if event["task"].startswith("column ") else event["round"]
            found[round, event["question"]] = (event["asked"], event["counted"])
    return found


def fixed_sum(task, uploads, asked):
    """Return the sum of the uploads as a secure sum carries it."""
    like = next(iter(uploads.values()))
    if task.reduce == "gather":
        return reduce_uploads(task, [uploads[id] for id in sorted(uploads)])
    words = make_schema(parts_of(task, like, asked), asked)
    total = sum(encoded(words, task, upload, "it") for upload in uploads.values())
    return joined(task, like, decode(words, len(uploads), total))


def replayed(study, silos):
    """Return the final state of the run that the log tells of, without any disturbance."""
    planned, who, there = read_study(study), schedule(study), open_silos(study, silos)
    columns = planned.schema.numeric
    numbers = iter(range(100))

    def answers(question, told):
        asked, counted = who[-1, next(numbers)]
        uploads = {
            id: answer(question, told, column_values(there[id].train, columns)) for id in counted
        }
        return fixed_sum(column_question(question, uploads[counted[0]]), uploads, len(asked))

    spread = spread_by(columns, answers)
    told = pack_values({name: value.tolist() for name, value in spread._asdict().items()})
    ready = {id: prepare(silo, told) for id, silo in there.items()}
    trial = make_trial(planned, ready[0].encoder)
    memories = {id: trial.algorithm.memory(trial.start) for id in there}

    def asking(round):
        questions = iter(range(100))

        def ask(task, broadcast):
            number = next(questions)
            asked, counted = who[round, number]
            uploads = {}
            for id in counted:
                key = (planned.seed, round, number, id)
                own = ready[id].trial.tasks[task.name]
                with np.errstate(all="ignore"):
                    uploads[id], memories[id] = own.run(
                        broadcast, ready[id].data, memories[id], key
                    )
            return fixed_sum(task, uploads, len(asked))

        return ask

    rounds = planned.experiment.rounds
    return conduct(
        trial.algorithm, trial.start, asking, {}, seed=planned.seed, rounds=rounds,
        watch=trial.watch,
    ).state._asdict()  # fmt: skip


def assert_same_bits(state, expected):
    """Compare the arrays of two states, bit by bit."""
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], np.asarray(value), err_msg=name)
