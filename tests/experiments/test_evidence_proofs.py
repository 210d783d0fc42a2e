"""Small samples of the proofs about evidence. A file of their own, since a worker takes whole files."""


def test_intervals_hold_the_truth_and_tests_seldom_claim_what_is_not(prove):
    found = prove("intervals", 40)
    # Four standard errors of a share of 5% in forty, as the full size is for `make proof-statistics`.
    assert all(share >= 0.81 for share in found["coverage"].values())
    assert all(share <= 0.19 for share in found["false_positives"].values())


def test_a_killed_sweep_loses_no_trial_and_repeats_none(prove):
    found = prove("sweep", 2)
    assert found["workers_killed"] > 0
    assert {name: found[name] for name in ("lost", "done_twice", "told_twice")} == {
        "lost": 0,
        "done_twice": 0,
        "told_twice": 0,
    }
    assert found["as_left_alone"] == found["trials"] == 4
    assert found["best_bit_equal"]
