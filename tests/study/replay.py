"""An undisturbed run over the same participants: what a study's log says, worked out in one place.

No messages and no masks: for every question the fixed-point sum over those who were in it.
"""

import numpy as np

from fedfb.data.encode import Encoder
from fedfb.data.fit_columns import ROWS, columns_by, groups_by, make_column_upload
from fedfb.experiments.secure import column_question
from fedfb.runtime.boundary import reduce_uploads
from fedfb.runtime.loop import run_rounds
from fedfb.runtime.secure import encode_upload, parts_of, read_total
from fedfb.secure import decode, make_schema
from fedfb.study.journal import EVENTS, read_events
from fedfb.study.study import read_study
from fedfb.study.trial import describe_phase, make_trial, prepare_data
from study.by_hand import open_clients


def schedule(study):
    """Return who was asked and who counted, by phase, round and question."""
    return {
        (event["phase"], event["round"], event["question"]): (event["asked"], event["counted"])
        for event in read_events(study.parent / "run" / EVENTS)
        if event["event"] == "answered"
    }


def fixed_sum(task, uploads, asked):
    """Return the sum of the uploads as a secure sum carries it."""
    like = next(iter(uploads.values()))
    if task.reduce == "gather":
        return reduce_uploads(task, [uploads[id] for id in sorted(uploads)])
    words = make_schema(parts_of(task, like, asked), asked)
    total = sum(encode_upload(words, task, upload, "it") for upload in uploads.values())
    return read_total(task, like, decode(words, len(uploads), total))


def replayed(study, clients):
    """Return the final state of the run that the log tells of, without any disturbance."""
    planned, who, there = read_study(study), schedule(study), open_clients(study, clients)
    schema, numbers = planned.schema, iter(range(100))

    def answers(question, told):
        asked, counted = who["data", 0, next(numbers)]
        uploads = {
            id: make_column_upload(question, told, there[id].train, schema) for id in counted
        }
        return fixed_sum(column_question(question, uploads[counted[0]]), uploads, len(asked))

    groups = groups_by(schema, answers(ROWS, {})["rows"])
    found = columns_by(schema, answers)
    columns = tuple(found[column.name] for column in schema.of("feature"))
    given = planned.experiment.sensitive_at_prediction
    shape = (schema.label.name, schema.label.positive, given, schema.derived)
    encoder = Encoder(columns, groups, *shape)
    told = describe_phase("run", encoder)
    ready = {id: prepare_data(planned, id, s.train, s.test, told) for id, s in there.items()}
    trial = make_trial(planned, encoder)
    memories = {id: trial.algorithm.memory(trial.start) for id in there}

    def asking(round):
        questions = iter(range(100))

        def ask(task, broadcast):
            number = next(questions)
            asked, counted = who["run", round, number]
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
    return run_rounds(
        trial.algorithm, trial.start, asking, {}, seed=planned.seed, rounds=rounds,
        watch=trial.watch,
    ).state._asdict()  # fmt: skip


def assert_same_bits(state, expected):
    """Compare the arrays of two states, bit by bit."""
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], np.asarray(value), err_msg=name)
