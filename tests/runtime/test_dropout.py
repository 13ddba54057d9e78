"""Who falls silent in a round is drawn by seed and round, whatever else there is."""

from hypothesis import given
from hypothesis import strategies as st

from fedfb.runtime.boundary import TURNS, draw_leavings, number_leaving


@given(
    number=st.integers(1, 30),
    share=st.floats(0, 0.9),
    seed=st.integers(0, 99),
    round=st.integers(1, 9),
    questions=st.integers(0, 5),
)
def test_a_share_falls_silent_whatever_the_order(number, share, seed, round, questions):
    ids = list(range(3, 3 + number))
    drawn = draw_leavings(ids, share, seed, round, questions)
    assert drawn == draw_leavings(ids[::-1], share, seed, round, questions)
    assert len(drawn) == number_leaving(number, share) <= number - 1
    assert set(drawn) <= set(ids)
    assert all(0 <= left.exchange < max(questions, 1) for left in drawn.values())


def test_every_client_question_and_turn_is_drawn_at_some_time():
    rounds = [draw_leavings(range(5), 0.2, 0, number, 3) for number in range(1, 400)]
    found = {(client, *left) for one in rounds for client, left in one.items()}
    # 399 draws miss one of 75 with a chance of 0.5%, and six of them with less than 1e-5.
    assert len(found) >= 70
    assert {turn for _, _, turn in found} == set(TURNS)
