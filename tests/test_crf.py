"""The CRF against every row of tags there is: likelihood, best row and marginals, masks and forbidden steps."""

import itertools

import pytest
import torch

from warmstart.models.heads.crf import CRF

TAGS = 3


def crf(seed=0, steps=None, starts=None, ends=None):
    torch.manual_seed(seed)
    free = torch.ones(TAGS, dtype=torch.bool)
    every_step = torch.ones(TAGS, TAGS, dtype=torch.bool)
    given = [free if one is None else one for one in (starts, ends)]
    made = CRF(every_step if steps is None else steps, *given)
    torch.nn.init.normal_(made.transitions)
    return made


def score(made, emissions, tags):
    steps = made.transitions + made.steps
    own = sum(emissions[place, tag] for place, tag in enumerate(tags))
    return own + sum(steps[a, b] for a, b in itertools.pairwise(tags))


def every(length):
    return list(itertools.product(range(TAGS), repeat=length))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [1, 2, 4])
def test_likelihood_best_row_and_marginals_are_those_of_enumeration(seed, length):
    made = crf(seed)
    emissions = torch.randn(length, TAGS)
    scores = torch.stack([score(made, emissions, tags) for tags in every(length)])
    chances = scores.softmax(0)
    for tags, chance in zip(every(length), chances, strict=True):
        found = made.log_likelihood(emissions[None], torch.tensor([tags]), torch.ones(1, length, dtype=torch.bool))
        assert found.item() == pytest.approx(chance.log().item(), abs=1e-4)
    assert tuple(made.decode(emissions)) == every(length)[int(scores.argmax())]
    wanted = torch.zeros(length, TAGS)
    for tags, chance in zip(every(length), chances, strict=True):
        for place, tag in enumerate(tags):
            wanted[place, tag] += chance
    assert torch.allclose(made.marginals(emissions).float(), wanted, atol=1e-5)


def test_padding_changes_nothing_and_a_row_without_words_costs_nothing():
    made = crf()
    emissions, tags = torch.randn(3, 5, TAGS), torch.randint(TAGS, (3, 5))
    lengths = [5, 2, 0]
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    found = made.log_likelihood(emissions, tags.masked_fill(~mask, -100), mask)
    for row, length in enumerate(lengths[:2]):
        whole = torch.ones(1, length, dtype=torch.bool)
        alone = made.log_likelihood(emissions[row : row + 1, :length], tags[row : row + 1, :length], whole)
        assert found[row].item() == pytest.approx(alone.item(), abs=1e-5)
    assert found[2].item() == 0
    found.sum().backward()
    assert torch.isfinite(made.transitions.grad).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_forbidden_step_start_or_end_is_never_taken(seed):
    steps = torch.tensor([[True, True, False], [True, False, True], [False, True, True]])
    made = crf(seed, steps, torch.tensor([True, False, True]), torch.tensor([True, True, False]))
    emissions = torch.randn(6, TAGS) * 10
    best = made.decode(emissions)
    assert all(steps[a, b] for a, b in itertools.pairwise(best))
    assert best[0] != 1
    assert best[-1] != 2
    allowed = [
        tags
        for tags in every(6)
        if tags[0] != 1 and tags[-1] != 2 and all(steps[a, b] for a, b in itertools.pairwise(tags))
    ]
    assert tuple(best) == max(allowed, key=lambda tags: score(made, emissions, tags).item())
    chances = made.marginals(emissions)
    assert chances[0, 1] < 1e-6
    assert chances[-1, 2] < 1e-6
    assert torch.allclose(chances.sum(1).float(), torch.ones(6), atol=1e-5)


def test_it_computes_in_32_bits_under_autocast():
    made = crf()
    emissions, tags = torch.randn(2, 7, TAGS), torch.randint(TAGS, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.bool)
    plain = made.log_likelihood(emissions, tags, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = made.log_likelihood(emissions, tags, mask)
    assert found.dtype == torch.float32
    assert torch.equal(found, plain)


def test_it_learns_what_follows_what():
    """Emissions say nothing, so only transitions can tell: after 0 comes 1, after 1 comes 2, after 2 comes 0."""
    made = crf()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.3)
    tags = torch.tensor([[0, 1, 2, 0, 1, 2, 0]])
    emissions, mask = torch.zeros(1, 7, TAGS), torch.ones(1, 7, dtype=torch.bool)
    for _ in range(60):
        optimizer.zero_grad()
        (-made.log_likelihood(emissions, tags, mask).mean()).backward()
        optimizer.step()
    given = torch.zeros(7, TAGS)
    given[0, 0] = 5.0
    assert made.decode(given) == tags[0].tolist()
