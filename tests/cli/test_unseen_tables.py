"""Tables as others have them go through infer, run, frontier and predict by commands alone."""

import csv
import io

import numpy as np
import pandas
import pytest

QUICK = ("--rounds", "2", "--local-epochs", "2")


def chosen(rng, rows, **weights):
    names = list(weights)
    share = np.array(list(weights.values()), float)
    return rng.choice(names, rows, p=share / share.sum())


def credit(folder):
    """One file, a column that names the branch, labels good and bad, an account number, a date."""
    rng, rows = np.random.default_rng(11), 900
    frame = pandas.DataFrame(
        {
            "account_no": rng.permutation(10**6)[:rows] + 10**7,
            "opened": pandas.to_datetime("2015-01-01") + pandas.to_timedelta(range(rows), "D"),
            "branch": chosen(rng, rows, Aachen=5, Bonn=3, Celle=2),
            "amount": rng.lognormal(8, 1, rows).round(2),
            "months": rng.choice([6, 12, 24, 36], rows),
            "purpose": chosen(rng, rows, car=4, TV=3, **{"business, small": 1}),
            "savings": pandas.Series(chosen(rng, rows, none=5, some=3, rich=2)).where(
                rng.random(rows) < 0.8
            ),
            "gender": chosen(rng, rows, female=4, male=6),
            "foreign": chosen(rng, rows, yes=2, no=8),
        }
    )
    lean = 1 * (frame["gender"] == "male") + (frame["savings"] == "rich") - (frame["months"] > 20)
    frame["risk"] = np.where(lean + rng.normal(0, 1, rows) > 0.3, "good", "bad")
    frame.to_csv(folder / "credit.csv", sep=";", index=False)
    flags = ("--label", "risk", "--positive", "good", "--sensitive", "gender,foreign")
    more = ("--client-column", "branch", "--ignore", "account_no,opened")
    return "credit.csv", (*flags, *more), frame


def health(folder):
    """Four hospitals: CSV and Parquet, columns in different orders, age in ranges."""
    (folder / "hospitals").mkdir()
    frames = []
    for number, name in enumerate(("north", "south", "east", "west")):
        rng, rows = np.random.default_rng(number), 260
        frame = pandas.DataFrame(
            {
                "age": rng.integers(18, 96, rows),
                "stay": rng.exponential(4, rows).round(1),
                "diagnosis": chosen(rng, rows, heart=3, lung=3, other=number + 1),
                "emergency": rng.random(rows) < 0.4,
                "sex": chosen(rng, rows, F=5, M=5),
                "insurance": chosen(rng, rows, private=2, public=7, none=1),
            }
        )
        if name == "west":
            frame["diagnosis"] = chosen(rng, rows, heart=3, lung=3, rare=2)
        lean = frame["stay"] / 4 + frame["emergency"] - (frame["age"] > 60)
        frame["readmitted"] = np.where(lean + rng.normal(0, 1, rows) > 1, "Yes", "No")
        frame = frame[list(rng.permutation(frame.columns))]
        if name in ("south", "west"):
            frame.to_parquet(folder / f"hospitals/{name}.parquet", index=False)
        else:
            frame.to_csv(folder / f"hospitals/{name}.csv", index=False, lineterminator="\r\n")
        frames.append(frame)
    flags = ("--label", "readmitted", "--positive", "No", "--sensitive", "sex,age,insurance")
    more = ("--bins", "age: 40,65", "--merge", "insurance: public+none=not private")
    return "hospitals/*.*", (*flags, *more), pandas.concat(frames)


def education(folder):
    """One Parquet file, grades as labels, three sensitive attributes, a remark in free text."""
    rng, rows = np.random.default_rng(5), 1200
    words = ["works", "well", "with", "others", "could", "do", "more", "at", "home"]
    frame = pandas.DataFrame(
        {
            "gender": chosen(rng, rows, girl=5, boy=5),
            "language": chosen(rng, rows, German=7, Turkish=1, Polish=1, Arabic=0.5, Greek=0.3),
            "parents": chosen(rng, rows, degree=4, school=5, unknown=1),
            "absent": rng.poisson(4, rows),
            "points": rng.normal(60, 15, rows).astype("float32"),
            "course": chosen(rng, rows, maths=1, art=1, PE=1),
            "remark": [" ".join(rng.permutation(words)[:7]) for _ in range(rows)],
            "school": rng.integers(1, 4, rows),
        }
    )
    lean = frame["points"] / 15 - frame["absent"] / 4 + (frame["parents"] == "degree")
    frame["grade"] = pandas.cut(lean + rng.normal(0, 1, rows), 5, labels=list("FDCBA")).astype(str)
    frame.to_parquet(folder / "pupils.parquet", index=False)
    flags = ("--label", "grade", "--positive", "passed", "--client-column", "school")
    merge = "grade: A+B+C=passed; language: Turkish+Polish+Arabic+Greek=other"
    more = ("--sensitive", "gender,language,parents", "--merge", merge, "--ignore", "remark")
    return "pupils.parquet", (*flags, *more), frame


GROUPS = {
    credit: ["gender=female, foreign=no", "gender=female, foreign=yes"],
    health: [
        "sex=F, age=up to 40, insurance=not private",
        "sex=F, age=up to 40, insurance=private",
    ],
    education: ["gender=boy, language=German, parents=degree"],
}
CLIENTS = {
    credit: ["Aachen", "Bonn", "Celle"],
    health: ["east", "north", "south", "west"],
    education: ["1", "2", "3"],
}


@pytest.mark.slow
@pytest.mark.parametrize("table", [credit, health, education])
def test_a_table_goes_through_by_commands(fedfb, tmp_path, table):
    data, flags, frame = table(tmp_path)
    run = fedfb("run", "--data", data, *flags, *QUICK, "--out", "kept", "--json").json
    assert [client["name"] for client in run["runs"][0]["clients"]] == CLIENTS[table]
    assert set(GROUPS[table]) <= set(run["groups"])

    assert fedfb("schema", "infer", data, *flags, "--out", "schema.toml").code == 0
    assert fedfb("schema", "check", "schema.toml", data).code == 0
    again = fedfb("run", "--data", data, "--schema", "schema.toml", *QUICK, "--json").json
    assert again["runs"] == run["runs"]

    label = flags[flags.index("--label") + 1]
    rows = frame.drop(columns=label).head(40)
    rows.to_csv("new.csv", index=False)
    rows.to_parquet("new.parquet", index=False)
    decided = fedfb("predict", "kept", "new.csv")
    assert len(list(csv.DictReader(io.StringIO(decided.out)))) == 40
    assert fedfb("predict", "kept", "new.parquet").out == decided.out

    audited = fedfb("audit", "kept", "--out", "audited", "--json").json
    assert audited["client_names"] == CLIENTS[table]
    aim = audited["notions"]["demographic_parity"]["value"]
    assert aim == pytest.approx(run["runs"][0]["disparity"]["demographic_parity"])
    assert {one["attribute"] for one in audited["by_attribute"]} == set(audited["attributes"])
    frame.tail(200).to_parquet("later.parquet", index=False)
    column = (
        () if table is health else ("--client-column", flags[flags.index("--client-column") + 1])
    )
    later = fedfb("audit", "kept", "--data", "later.parquet", *column, "--json").json
    assert 100 < later["overall"]["n"] <= 200

    some = ("--algorithms", "fedavg,fedfb", "--seeds", "1", "--quick", "--no-store", *QUICK)
    drawn = fedfb("frontier", "--data", data, "--schema", "schema.toml", *some, "--json").json
    assert {point["algorithm"] for point in drawn["points"]} >= {"fedavg", "fedfb"}
    of_data = [
        [note for note in one["notes"] if note not in {s["sentence"] for s in one["shortfalls"]}]
        for one in (run, drawn)
    ]
    assert of_data[0] == of_data[1] != []


def test_what_commands_say_of_a_table_before_anything_is_declared(fedfb, tmp_path):
    """Each refusal names the flag that goes on from there."""
    credit(tmp_path)
    flags = ["run", "--data", "credit.csv", "--label", "risk", "--sensitive", "gender", *QUICK]
    assert "(--positive)" in fedfb(*flags).err
    said = fedfb(*flags, "--positive", "fine").err
    assert "--ignore 'account_no,opened'" in said
    flags += ["--ignore", "account_no,opened"]
    assert "whose values are bad, good" in fedfb(*flags, "--positive", "fine").err
    said = fedfb(*flags, "--positive", "good", "--sensitive", "gender,months,amount").err
    assert "--bins 'amount: 25,40,65'" in said
    assert fedfb(*flags, "--positive", "good").code == 0
