"""What a model loses with heads and blocks off, and the order in which heads can go."""

import csv
from pathlib import Path

import pytest
import torch

import warmstart
from warmstart.errors import ModelError, RunError
from warmstart.inspection.ablation import Ablations, every_head, every_layer
from warmstart.inspection.importance import gradient_importance
from warmstart.inspection.removal import remove_heads
from warmstart.models.switches import Switches, heads_joined, parse_switches


@pytest.fixture(scope="module")
def rows(files):
    with Path(files["test"]).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def predictor(run):
    return warmstart.load(run.folder)


@pytest.fixture(scope="module")
def one_head(run):
    """The run's model, all of whose heads but one are cut out of the weights."""
    predictor = warmstart.load(run.folder)
    layers = warmstart.LayerMap.of(predictor.engine.model)
    with torch.no_grad():
        for block, module in enumerate(heads_joined(layers)):
            module.weight[:, : 24 if block == 1 else 32] = 0
    return predictor


def test_a_measurement_is_that_of_the_predictor_without_them(run, predictor, rows):
    off = parse_switches("0.*,2")
    measured = Ablations(predictor, rows).measure(off)
    answers = warmstart.load(run.folder, without="0.*,2").predict([row["text"] for row in rows])
    right = [float(answer["label"] == row["label"]) for answer, row in zip(answers, rows, strict=True)]
    assert measured.scores == right
    assert measured.headline == pytest.approx(sum(right) / len(right))


def test_effects_are_of_every_head_and_layer_and_corrected_for_their_number(predictor, rows):
    ablations = Ablations(predictor, rows)
    wanted = [*every_head(ablations.model), *every_layer(ablations.model)]
    assert [kind for kind, _ in wanted] == ["head"] * 12 + ["attention"] * 3 + ["block"] * 3
    effects = ablations.effects(wanted)
    assert [effect.without for effect in effects[-6:]] == ["0.*", "1.*", "2.*", "0", "1", "2"]
    base = ablations.measure()
    for effect, (_, switches) in zip(effects, wanted, strict=True):
        assert effect.difference == pytest.approx(ablations.measure(switches).mean - base.mean)
        assert effect.p <= effect.p_corrected <= 1
    # Without any block, the first token is the same in all texts.
    assert len({*ablations.measure(parse_switches("0,1,2")).scores}) == 2
    assert ablations.measure(parse_switches("0,1,2")).mean < base.mean


def test_blocks_below_the_first_that_differs_are_computed_once(predictor, rows):
    ablations = Ablations(predictor, rows)
    computed = [0, 0, 0]

    def count(number):
        def add(*_):
            computed[number] += 1

        return add

    blocks = [group.module for group in warmstart.LayerMap.of(ablations.model).blocks]
    handles = [next(block.children()).register_forward_hook(count(number)) for number, block in enumerate(blocks)]
    try:
        ablations.measure()
        batches = computed[0]
        assert computed == [batches] * 3
        measured = [ablations.measure(parse_switches(f"2.{head}")) for head in range(4)]
        assert computed == [batches, batches, 5 * batches]
        ablations.go_on_from(parse_switches("1.0"))
        others = [ablations.measure(parse_switches(f"1.0,2.{head}")) for head in (1, 2)]
        # Once more from the block that differs, to store what it and those above it return.
        assert computed == [batches, 2 * batches, 8 * batches]
        ablations.go_on_from(parse_switches("1.0,2.1"))
        ablations.go_on_from(parse_switches("1.0,1.1"))
        base = ablations.measure(parse_switches("1.0,1.1"))
        assert computed == [batches, 3 * batches, 9 * batches]  # stored while it is measured
    finally:
        for handle in handles:
            handle.remove()
    again = Ablations(predictor, rows)
    again.go_on_from(parse_switches("0.0"))  # differs from all at the lowest block
    assert [again.measure(parse_switches(f"2.{head}")) for head in range(4)] == measured
    assert [again.measure(parse_switches(f"1.0,2.{head}")) for head in (1, 2)] == others
    assert again.measure(parse_switches("1.0,1.1")) == base


def test_heads_that_are_not_read_have_no_effect_and_no_importance(one_head, rows):
    ablations = Ablations(one_head, rows)
    effects = {effect.without: effect for effect in ablations.effects(every_head(ablations.model))}
    assert [name for name, effect in effects.items() if effect.difference != 0 or effect.significant] in ([], ["1.3"])
    importance = gradient_importance(one_head, rows)
    nonzero = [(block, head) for block in range(3) for head in range(4) if importance[block][head] > 0]
    assert nonzero == [(1, 3)]


def test_importance_is_the_size_of_the_gradient_of_each_rows_loss(predictor, rows):
    importance = torch.tensor(gradient_importance(predictor, rows[:4]))
    assert importance.norm(dim=1) == pytest.approx([1, 1, 1], abs=1e-5)
    model, weights = predictor.engine.model, {}
    # The same gradient by its definition: what a head gives, times the gradient there, summed.
    labels = predictor.task.labels.ids
    totals = torch.zeros(3, 4)
    for row in rows[:4]:
        handles = [
            module.register_forward_pre_hook(lambda _, inputs, block=block: weights.update({block: inputs[0]}))
            for block, module in enumerate(heads_joined(warmstart.LayerMap.of(model)))
        ]
        inputs = predictor.tokenizer(row["text"], return_tensors="pt")
        loss = model(**inputs, labels=torch.tensor([labels[row["label"]]])).loss
        for block, gradient in enumerate(torch.autograd.grad(loss, [weights[block] for block in range(3)])):
            totals[block] += (gradient * weights[block]).unflatten(-1, (4, 8)).sum((0, 1, 3)).abs()
        for handle in handles:
            handle.remove()
    expected = totals / totals.norm(dim=1, keepdim=True)
    assert importance.flatten().tolist() == pytest.approx(expected.flatten().tolist(), abs=1e-4)


def test_heads_are_removed_one_after_the_other_the_least_costly_first(predictor, rows):
    chosen_on, told_on = Ablations(predictor, rows[:12]), Ablations(predictor, rows[12:])
    importance = {(block, head): float(4 * block + head) for block in range(3) for head in range(4)}
    removals = remove_heads(chosen_on, importance, 3, told_on, candidates=2)
    assert [removal.heads for removal in removals] == [0, 1, 2, 3]
    assert removals[0].without == removals[0].last == ""
    tried = [chosen_on.measure(Switches({0: [head]})).mean for head in (0, 1)]
    assert removals[1].row_score == max(tried)
    assert removals[1].last == f"0.{tried.index(max(tried))}"
    last = parse_switches(removals[-1].without)
    assert removals[-1].test_row_score == told_on.measure(last).mean
    assert sum(map(len, last.heads.values())) == 3
    assert len(remove_heads(chosen_on, importance, candidates=1)) == 13


def test_a_stopped_series_continues_where_it_was(predictor, rows, tmp_path, monkeypatch):
    first = Ablations(predictor, rows, tmp_path / "kept")
    wanted = every_layer(first.model)
    effects = first.effects(wanted)
    again = Ablations(predictor, rows, tmp_path / "kept")
    monkeypatch.setattr(predictor, "answer", None)  # nothing is computed a second time
    assert again.effects(wanted) == effects


def test_what_cannot_be_measured_is_refused(predictor, run):
    with pytest.raises(RunError, match="there are no rows"):
        Ablations(predictor, [])
    undecided = warmstart.load(run.folder, engine="auto")
    with pytest.raises(ModelError, match="inspected with the engine torch"):
        Ablations(undecided, [{"text": "the film", "label": "pos"}])
