"""Bugs of published code: effects, defaults and resumption."""

from __future__ import annotations

import numpy as np
import pytest
from test_replay import SHORT, Killed, contents, train

from replay.example_facts import example_facts
from zerolab.core.errors import UserError
from zerolab.replay.window import Window
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.examples import Examples
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings, resume_settings, saved_settings
from zerolab.training.learner import Learner
from zerolab.training.published_bugs import EnabledBugs, label_losses_as_draws
from zerolab.training.records import LearnRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

QUICK = ["selfplay.episodes=4", "iterations=2", "gate=always"]
FIRST, SECOND, NOBODY = 1, -1, 0


def game_from_name(winner: int, plies: int) -> Examples:
    """Return the examples of an invented game with correct outcomes."""
    ply = np.arange(plies)
    signs = np.where(ply % 2 == 0, FIRST, SECOND)
    return Examples(
        states=np.zeros((plies, 2), np.uint64),
        policies=np.zeros((plies, 9), np.float16),
        root_values=np.linspace(-1, 1, plies).astype(np.float16),
        root_draws=np.zeros(plies, np.float16),
        action_values=np.zeros((plies, 9), np.float16),
        surprises=np.zeros(plies, np.float16),
        outcomes=(winner * signs).astype(np.int8),
        plies_left=(plies - ply).astype(np.int16),
        games=np.zeros(plies, np.int32),
        plies=ply.astype(np.int16),
        actions=np.zeros(plies, np.int16),
        full=np.ones(plies, np.bool_),
    )


@pytest.mark.parametrize(
    ("winner", "plies", "correct", "labels"),
    [
        # The first player completes a line with the fifth ply, and the second with the sixth.
        (FIRST, 5, [1, -1, 1, -1, 1], [-1, 1, -1, 1, -1]),
        (SECOND, 6, [-1, 1, -1, 1, -1, 1], [-1, 1, -1, 1, -1, 1]),
        (NOBODY, 4, [0, 0, 0, 0], [0, 0, 0, 0]),
        # As can happen in Othello, the player of the last move loses.
        (FIRST, 4, [1, -1, 1, -1], [1, -1, 1, -1]),
        (SECOND, 3, [-1, 1, -1], [1, -1, 1]),
    ],
)
def test_winner_colour_is_misread_as_relative(winner, plies, correct, labels):
    examples = game_from_name(winner, plies)
    assert examples.outcomes.tolist() == correct
    labelled = EnabledBugs(("absolute_winner",)).relabelled_examples(examples)
    assert labelled.outcomes.tolist() == labels
    assert labelled.outcomes.dtype == np.int8
    for name in set(Examples.column_forms()) - {"outcomes"}:
        assert getattr(labelled, name) is getattr(examples, name), name


@pytest.mark.parametrize(("winner", "plies"), [(FIRST, 5), (SECOND, 4), (FIRST, 6), (SECOND, 7)])
def test_labels_follow_the_published_formula(winner, plies):
    """r * (-1) ** (player != curPlayer), where r is 1 if the first player won [AZG]."""
    next_player = FIRST if plies % 2 == 0 else SECOND
    movers = [FIRST if ply % 2 == 0 else SECOND for ply in range(plies)]
    expected = [winner * (-1) ** (mover != next_player) for mover in movers]
    labelled = EnabledBugs(("absolute_winner",)).relabelled_examples(game_from_name(winner, plies))
    assert labelled.outcomes.tolist() == expected


def test_run_learns_from_wrong_labels_but_stores_correct_ones(tmp_path):
    run = train(tmp_path / "run", *QUICK, 'published_bugs=["absolute_winner"]')
    settings = saved_settings(run)
    trainer = Trainer(run, settings)
    trainer._fill_window()
    window = trainer.context.window
    (batch,) = window.batches(np.random.default_rng(0), len(window), 1, "none")
    decisive = batch.facts.values != 0
    first = batch.facts.plies % 2 == 0
    assert decisive.any()
    assert (batch.facts.values[decisive] == np.where(first[decisive], -1, 1)).all()
    for iteration in (1, 2):
        examples = run.load_examples(iteration)
        last = examples.outcomes[examples.plies_left == 1]
        assert (last >= 0).all()  # the player of the last move never loses


def corner_position() -> tuple[np.ndarray, np.ndarray]:
    """Return a board with a disc in the first column, and a policy on the second."""
    state = Position.start("connect_four:4x5").play(0).state
    return np.array([state]), np.eye(5, dtype=np.float16)[[1]]


@pytest.mark.parametrize(
    ("bugs", "mirrored"), [((), [0, 0, 0, 1, 0]), (("mirrored_policy",), [0, 1, 0, 0, 0])]
)
@pytest.mark.parametrize("symmetries", ["all", "random"])
def test_policy_of_mirrored_boards(bugs, mirrored, symmetries):
    game, (states, policies) = parse_game("connect_four:4x5"), corner_position()
    window = EnabledBugs(bugs).new_window(game, resolve_settings(None, "smoke").learn)
    window.add(states, example_facts(1, policies=policies, played_actions=policies))
    plain = compiled_rules.encode(game, states[0])
    served = {False: 0, True: 0}
    for batch in window.batches(np.random.default_rng(3), 1, 12, symmetries):
        is_mirrored = (batch.planes[0] == plain[:, :, ::-1]).all()
        assert is_mirrored != (batch.planes[0] == plain).all()
        expected = mirrored if is_mirrored else [0, 1, 0, 0, 0]
        assert batch.facts.policies.tolist() == batch.facts.played_actions.tolist() == [expected]
        served[bool(is_mirrored)] += 1
    assert all(served.values())


def test_mirrored_policy_keeps_boards_and_their_order():
    """All eight images of an Othello board, with the policy of the first."""
    game = parse_game("othello:4x4")
    state, learn = compiled_rules.start(game), resolve_settings(None, "smoke").learn
    batches = []
    for names in ((), ("mirrored_policy",)):
        window = EnabledBugs(names).new_window(game, learn)
        window.add(np.array([state]), example_facts(1, policies=[np.arange(17)]))
        batches += window.batches(np.random.default_rng(3), 8, 1, "all")
    correct, wrong = batches
    np.testing.assert_array_equal(correct.planes, wrong.planes)
    assert (wrong.facts.policies == np.arange(17)).all()
    assert len({policy.tobytes() for policy in correct.facts.policies}) == 8


def test_fresh_optimizer_restarts_adam_with_its_own_rate(tmp_path, monkeypatch):
    initial_states, rates, steps = [], [], []
    learn = Learner.learn

    def recording_learn(learner, *arguments, **options):
        initial_states.append(dict(learner.optimizer.state))
        learned = learn(learner, *arguments, **options)
        rates.extend(group["lr"] for group in learner.optimizer.param_groups)
        state = learner.optimizer_arrays()
        steps.append({float(value) for key, value in state.items() if key.endswith("/step")})
        return learned

    monkeypatch.setattr(Learner, "learn", recording_learn)
    run = train(
        tmp_path / "run", *QUICK, 'published_bugs=["fresh_optimizer"]', "learn.learning_rate=0.02"
    )
    assert initial_states == [{}] * 2
    assert rates == [0.001] * 2
    records = [entry for entry in read_records(run) if isinstance(entry, LearnRecord)]
    assert steps == [{record.examples_seen / 16} for record in records]


def test_fresh_optimizer_only_changes_the_rate_of_the_first_iteration(tmp_path):
    """The first iteration has no optimiser state to discard."""
    once = [*QUICK, "iterations=1"]
    fresh = train(
        tmp_path / "a", *once, 'published_bugs=["fresh_optimizer"]', "learn.learning_rate=0.02"
    )
    plain = train(tmp_path / "b", *once, "learn.learning_rate=0.001")
    assert contents(fresh) == contents(plain)


@pytest.fixture(scope="module")
def run_without_bugs(tmp_path_factory):
    """Contents of a run without published bugs."""
    return contents(train(tmp_path_factory.mktemp("without_bugs") / "run", *QUICK))


@pytest.mark.parametrize("name", ["mirrored_policy", "absolute_winner", "fresh_optimizer"])
def test_killed_run_with_bugs_resumes_to_the_same_bytes(tmp_path, run_without_bugs, name):
    settings = [*QUICK, f'published_bugs=["{name}"]']
    undisturbed = contents(train(tmp_path / "one", *settings))
    for _ in range(3):
        with pytest.raises(Killed):
            train(tmp_path / "other", *settings, kill_after=2)
    assert contents(train(tmp_path / "other", *settings)) == undisturbed
    changed = {file for file in run_without_bugs if run_without_bugs[file] != undisturbed[file]}
    assert "checkpoints/0001.safetensors" in changed
    assert "examples/0001.npz" not in changed


def test_no_bugs_change_nothing():
    bugs, learn, examples = (
        EnabledBugs(),
        resolve_settings(None, "smoke").learn,
        game_from_name(FIRST, 5),
    )
    assert bugs.relabelled_examples(examples) is examples
    assert type(bugs.new_window(parse_game("othello:4x4"), learn)) is Window
    assert bugs.learner_settings(learn) == learn
    optimizer = {"weight/step": np.array(3.0)}
    assert bugs.carried_optimizer_state(optimizer) == optimizer
    assert resolve_settings(None, "smoke").published_bugs == ()


def test_run_of_an_earlier_version_has_no_bugs(tmp_path):
    run = train(tmp_path / "run", *QUICK, "iterations=1")
    run.save_settings({key: value for key, value in run.config.items() if key != "published_bugs"})
    earlier = RunFolder.open(run.path)
    assert "published_bugs" not in earlier.config
    assert saved_settings(earlier) == resolve_settings(
        None, "smoke", [*SHORT, *QUICK, "iterations=1"]
    )
    assert resume_settings(earlier, ["iterations=3"]).iterations == 3
    with pytest.raises(UserError, match=r"published_bugs = .*absolute_winner.* differs"):
        resume_settings(earlier, ['published_bugs=["absolute_winner"]'])


FRESH, MIRRORED = 'published_bugs=["fresh_optimizer"]', 'published_bugs=["mirrored_policy"]'


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (['published_bugs=["absolut_winner"]'], 'did you mean "absolute_winner"?'),
        (["published_bugs=absolute_winner"], 'published_bugs = "absolute_winner": expected a list'),
        (
            ['published_bugs=["absolute_winner", "fresh_optimizer", "absolute_winner"]'],
            '"absolute_winner" is listed twice',
        ),
        ([FRESH, "learn.optimizer=sgd"], 'expected learn.optimizer = "adam", not "sgd"'),
        ([FRESH, "learn.ema_decay=0.5"], "expected learn.ema_decay = 0.0, not 0.5"),
        (
            [FRESH, 'learn.schedule={name="steps", iterations=[2]}'],
            'expected learn.schedule = "constant", not "steps"',
        ),
        ([MIRRORED, "learn.symmetries=none"], 'expected learn.symmetries = "all" or "random"'),
        (
            [MIRRORED, 'learn.merging={name="mean", across_symmetries=true}'],
            "learn.merging.across_symmetries = true stores symmetric images: expected false",
        ),
    ],
)
def test_invalid_settings_get_one_line_errors(assignments, message):
    with pytest.raises(UserError) as caught:
        resolve_settings(None, "smoke", assignments)
    assert message in str(caught.value)
    assert str(caught.value).startswith("published_bugs")
    assert len(str(caught.value).splitlines()) == 1


def test_losses_of_the_first_player_become_draws():
    outcomes = np.array([1, 0, -1, 1, 0, -1], np.int8)
    first = np.array([True, True, True, False, False, False])
    labels = label_losses_as_draws(outcomes, first)
    assert labels.tolist() == [1, 0, 0, 1, 0, -1]
    assert labels.dtype == np.int8
    assert outcomes.tolist() == [1, 0, -1, 1, 0, -1]
