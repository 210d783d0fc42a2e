"""A small sample of each proof about trust holds, and ends with its line of JSON."""


def test_killed_runs_end_bit_equal(prove):
    found = prove("kill", 2)
    assert found["bit_equal"] == found["runs"] == 2
    assert found["more_bit_equal"] == found["more_runs"] == 3
    assert found["left_without_a_valid_checkpoint"] == 0


def test_a_killed_run_makes_the_same_choice_and_ends_bit_equal(prove):
    figures = prove("kill_defaults", 2)
    assert figures["bit_equal"] == figures["runs"] == 2


def test_killed_trainings_of_a_recurrent_model_end_bit_equal(prove):
    figures = prove("kill_recurrent", 1)
    assert figures["bit_equal"] == figures["runs"] == 2


def test_a_killed_run_with_a_teacher_answers_every_text_once_and_ends_bit_equal(prove):
    figures = prove("kill_distil", 2, "--texts", "100", "--parts", "process")["process"]
    assert (figures["runs"], figures["bit_equal"], figures["answers_equal"]) == (1, 1, 1)
    assert figures["kills"] == {"gather": 1, "train": 1}
    assert (figures["not_answered"], figures["answered_twice"], figures["left_over"]) == (0, 0, 0)


def test_sharded_runs_end_bit_equal_and_are_smaller(prove):
    figures = prove("fsdp", 0, "--model", "tiny", "--processes", "2,4", "--kills", "1")
    for number in ("2", "4"):
        size = figures[number]
        assert size["bit_equal"] == size["kills"]
        assert size["memory"]["ddp"]["kept_mb"] > 0.9 * int(number) * size["memory"]["fsdp"]["kept_mb"]
        assert size["from_ddp"] < 1e-6
        assert size["logits"] < 1e-6
    assert figures["other_number"] < 1e-6


def test_no_corruption_is_silent(prove):
    found = prove("corrupt", 40)
    assert found["tried"] > 30
    assert found["silent"] == 0


def test_every_damage_to_finished_output_is_named(prove):
    found = prove("verify", 45, "--megabytes", "5", "--rounds", "1")
    assert found["damages"] == 45
    assert found["unnamed"] == 0
    assert found["speed"] > 0


def test_no_secret_is_printed_or_written(prove):
    found = prove("no_secrets", 1, "--parts", "commands,labelling")
    assert found["places"] > 15
    assert (found["commands"], found["leaks"], found["planted_found"]) == (6, 0, 2)


def test_rows_come_in_the_same_order_after_a_resume(prove):
    found = prove("order", 3)
    assert found == {"cases": 3, "equal": 3, "workers_agree": True, "every_row_once_an_epoch": True}


def test_a_full_disk_is_said_and_gone_on_from(prove):
    found = prove("full_disk", 2)
    assert found == {"sizes": 2, "clear": 2, "resumed_bit_equal": 2, "read_only_code": 9}


def test_a_labelling_without_room_is_refused_with_the_reason(prove):
    found = prove("exactly_once", 1, "--rows", "40", "--parts", "starved")
    assert set(found["refused_in_seconds"]) == {"cpus", "memory", "disk", "address"}


def test_engines_give_the_same_answers(prove, monkeypatch):
    monkeypatch.setenv("WARMSTART_PROOF_CASES", "classify,tag crf")
    monkeypatch.setenv("WARMSTART_PROOF_SURFACES", "onnx,openvino")
    found = prove("same_answers", 20)
    assert (found["cases"], found["answers"], found["labels_differ"]) == (2, 80, 0)
    assert found["onnx_worst"] < 1e-4


def test_what_a_new_user_types_is_answered_as_it_should_be(prove):
    figures = prove("first_minutes", 12)
    assert figures["as_expected"] == figures["typed"] == 12


def test_a_planted_word_is_ranked_first(prove):
    figures = prove("explain", 6)
    assert figures["accuracy"] == 1
    assert figures["found_first"]["integrated-gradients"] == figures["found_first"]["occlusion"] == 1
    assert set(figures["after_randomising"]) == set(figures["texts_per_second"])


def test_checkpoints_of_tensorflow_are_imported_and_damaged_ones_refused(prove):
    figures = prove("import_checkpoints", 20)
    assert figures["checkpoints"] == 4
    assert figures["largest_difference"] <= 1e-5
    assert (figures["damages"], figures["not_refused_by_name_and_place"]) == (20, 0)


def test_no_crash_point_loses_doubles_or_changes_anything(prove):
    jobs = "fit; study; labelling; labelling, object store; model published anew"
    figures = prove("simulation", 60, "--jobs", jobs, "--share", "0.25", "--processes", "1")
    assert figures["violations"] == 0
    assert figures["crash_points"] > 300
    assert figures["schedules"] == 60
    found_after = figures["planted_found_after"]
    assert len(found_after) == 5
    assert all(found_after.values())


def test_no_crash_point_of_stages_and_sweeps_does_either(prove):
    figures = prove("simulation", 12, "--jobs", "stages; sweep; stage removed", "--share", "0.01", "--processes", "1")
    assert figures["violations"] == 0
    assert figures["crash_points"] > 1500
