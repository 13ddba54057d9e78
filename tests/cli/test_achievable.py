"""``fedfb achievable``: the numbers of the theory through the command line, and what it refuses."""

import pytest

from cli.asking import refused

OWN = """
eta = "logistic"
[[client]]
q = 0.3
group0 = {dist = "normal", mean = 3.0, sd = 1.0}
group1 = {dist = "normal", mean = 5.0, sd = 1.0}
[[client]]
q = 0.7
group0 = {dist = "normal", mean = 1.0, sd = 1.0}
group1 = {dist = "normal", mean = -1.0, sd = 1.0}
"""


def test_the_papers_second_figure_comes_out(fedfb):
    flags = ("--setting", "fig2", "--levels", "0,.1,.2", "--eps", ".1,.1", "--json")
    record = fedfb("achievable", *flags).json
    assert record["erm"]["disparity"] == pytest.approx(0.3406699, abs=1e-6)
    assert record["lft_ensemble"]["min_disparity"] == pytest.approx(0.1646474, abs=1e-6)
    accuracies = [point["accuracy"] for point in record["cfl"]["curve"]]
    assert accuracies == pytest.approx([0.8043111, 0.8244224, 0.8390181], abs=1e-6)
    voting = [point["accuracy"] for point in record["lft_ensemble"]["curve"]]
    assert voting[:2] == [None, None]
    assert voting[2] == pytest.approx(0.8322583, abs=1e-6)
    assert record["lft_fedavg"]["at_eps"]["mean_difference"] == pytest.approx(0.0425202, abs=1e-6)
    assert record["lft_fedavg"]["at_eps"]["accuracy"] == pytest.approx(0.8133894, abs=1e-6)


def test_a_population_of_ones_own_is_read_from_a_file(fedfb, write):
    path = write(OWN, "clients.toml")
    said = fedfb("achievable", "--population", path, "--levels", "0,.4", "--json").json
    named = fedfb("achievable", "--setting", "fig2", "--q", ".3,.7", "--levels", "0,.4", "--json")
    assert said == named.json


def test_what_underflows_is_told_as_it_is(fedfb):
    said = fedfb("achievable", "--setting", "fig1b", "--levels", "0")
    assert "voting reaches 0" in said.out.replace("\n", " ")


@pytest.mark.slow
def test_pictures_are_written(fedfb, tmp_path):
    fedfb("achievable", "--setting", "example1", "--levels", "0", "--plot", "surface.png")
    flags = ("--setting", "fig2", "--q", ".5,.5", "--levels", "0")
    fedfb("achievable", *flags, "--plot", "curves.svg")
    assert (tmp_path / "surface.png").stat().st_size > 10_000
    assert "<svg" in (tmp_path / "curves.svg").read_text()


@pytest.mark.slow
def test_the_toy_picture_shows_what_its_numbers_say(fedfb, tmp_path):
    flags = ("--setting", "toy", "--levels", "0")
    record = fedfb("achievable", *flags, "--eps", "0,0,0", "--json").json
    vote, together = record["lft_ensemble"], record["cfl"]["at_least"]
    assert vote["at_eps"]["disparity"] == pytest.approx(1 / 6)
    assert vote["min_disparity"] == pytest.approx(1 / 18)
    assert together["disparity"] < 1e-9
    assert together["accuracy"] > vote["at_eps"]["accuracy"]
    fedfb("achievable", *flags, "--plot", "toy.svg")
    assert "<svg" in (tmp_path / "toy.svg").read_text()


def test_more_than_two_groups_are_told_without_the_vote(fedfb):
    data = ("--data", "synthetic", "--groups", "3", "--rows", "3000", "--rounds", "2")
    said = fedfb("achievable", *data, "--local-epochs", "2", "--levels", "0,.1")
    assert said.code == 0, said.err
    words = " ".join(said.out.split())
    assert "max |Pa - P| at most" in words
    assert "LFT+Ensemble is left out" in words
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_client_of_one_group_has_no_gap_to_tell(fedfb, write):
    lacking = OWN.replace("q = 0.3", "q = 0.0")
    path = write(lacking, "clients.toml")
    record = fedfb("achievable", "--population", path, "--levels", "0,.4", "--json").json
    assert record["client_gaps"][0] is None
    assert record["client_gaps"][1] > 0


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ("", ["needs one population", "--setting", "--population"]),
        ("--setting fig4", ["unknown setting 'fig4'", "fig"]),
        ("--setting fig2 --q .5", ["takes 2 shares q"]),
        ("--setting fig2 --levels x", ["--levels"]),
        ("--setting fig2 --eps 2,0", ["0", "1"]),
        ("--population absent.toml", ["cannot read absent.toml", "[[client]]"]),
    ],
)
def test_bad_input_is_told(fedfb, flags, fragments):
    refused(fedfb("achievable", *flags.split()), *fragments)


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (("sd = 1.0", "sd = 0.0"), ["sd"]),
        (("q = 0.3", "q = 1.3"), ["1.3"]),
        (("normal", "nrmal"), ["unknown dist 'nrmal'", "normal"]),
        (("q = 0.3", "share = 0.2\nq = 0.3"), ["share"]),
        (("logistic", "logstic"), ["logistic"]),
        (("[[client]]", "[[clent]]"), ["unknown key 'clent'", "client"]),
    ],
)
def test_a_file_that_is_no_population_is_told(fedfb, write, change, fragments):
    path = write(OWN.replace(*change), "clients.toml")
    refused(fedfb("achievable", "--population", path), "clients.toml", *fragments)


def test_the_lemma_on_votes_is_told_with_the_condition_that_fails(fedfb):
    said = " ".join(fedfb("achievable", "--setting", "fig1c", "--levels", "0").out.split())
    assert "Lemma ufl_limit (no budgets make the vote of two clients fair) applies" in said
    assert "Every vote has at least .1646" in said
    record = fedfb("achievable", "--setting", "example1", "--levels", "0", "--json").json
    limit = record["lft_ensemble"]["limit"]
    assert limit["applies"] is False
    assert [one["numbers"] for one in limit["conditions"] if not one["holds"]] == [
        "g_0(0) = 0, g_1(0) = 0.84"
    ]


def test_g_is_drawn_against_lambda(fedfb, tmp_path):
    fedfb("achievable", "--setting", "fig2", "--levels", ".2", "--plot-gaps", "g.svg")
    drawn = (tmp_path / "g.svg").read_text()
    assert "<svg" in drawn
    refused(fedfb("achievable", "--setting", "fig2", "--plot-gaps", "g.xyz"), "g.xyz")
