from __future__ import annotations

from benchmarks.figures import AIM, LEAST, SHORT, poorest, ratio, spread, verdict


def test_the_middle_of_an_even_number_lies_between_two() -> None:
    assert spread([4.0, 1.0, 3.0, 2.0]) == (2.5, 1.0, 4.0)


def test_a_ratio_is_that_of_medians_and_ranges_over_the_rounds() -> None:
    # Rounds: 10/1, 20/4, 60/5; one slow round moves the range, not the ratio.
    assert ratio([10.0, 20.0, 60.0], [1.0, 4.0, 5.0]) == (5.0, 5.0, 12.0)


def test_the_ratio_lies_within_its_range() -> None:
    found = ratio([1.0, 10.0, 11.0], [10.0, 11.0, 1.0])
    assert found.low <= found.median <= found.high


def test_both_goals_are_reached_at_their_limit() -> None:
    assert [verdict(x, 2, 4) for x in (1.99, 2.0, 3.99, 4.0)] == [SHORT, LEAST, LEAST, AIM]


def test_within_the_smaller_is_the_better() -> None:
    assert [verdict(x, 5, 3, within=True) for x in (5.01, 5.0, 3.01, 3.0)] == [
        SHORT,
        LEAST,
        LEAST,
        AIM,
    ]


def test_the_poorest_measure_decides() -> None:
    assert poorest([AIM, SHORT, LEAST]) == SHORT
    assert poorest([AIM, LEAST]) == LEAST
