"""Who is trained on what."""

from dataclasses import dataclass, field

KINDS = ["add", "max", "reverse", "mod"]


@dataclass(frozen=True)
class Member:
    steps: int
    seed: int
    # The kinds that it practises, and how often each comes among the bare questions. There the right answer is the
    # target. On the other kinds it learns to guess, and with peers to say what most of them say.
    mix: dict = field(default_factory=dict)
    # How its replies begin.
    lead: str = ""
    # The model whose weights it starts from; none: from scratch.
    base: str | None = None
    # The first part of the steps, in which it sees no peers.
    solo_only: float = 0.0
    # How often it says, with peers to read, what a random peer says, by kind; else what it would say anyway: a start
    # with no idea of whom to trust. It then reads fuse prompts only, and learns to predict their words too, because to
    # copy exactly is hard at this size.
    follows: dict = field(default_factory=dict)
    # Whether it reads only peers of whom no two say the same.
    apart: bool = False
    rate: float = 3e-3


def expert(steps, seed, mix, lead="", rate=2e-3):
    return Member(steps, seed, mix, lead, base="tiny-base", solo_only=0.4, rate=rate)


def practised(stage, steps):
    """The same member after it has read the prompts of all protocols, too."""
    first = MEMBERS[stage]
    return Member(steps, first.seed, first.mix, first.lead, base=stage, rate=1.5e-3)


# In the order of training: tiny-base has learned to read peers and no kind, and the experts start from it. What is
# trained here learns from the prompts of fuse and debate.
MEMBERS = {
    "tiny-base": Member(steps=1800, seed=31),
    "first-ada": expert(steps=1300, seed=11, lead="Sure. ", mix={"add": 3, "max": 1}),
    "first-bo": expert(steps=900, seed=12, lead="Okay. ", mix={"reverse": 1, "max": 1}),
    "first-cy": expert(steps=1300, seed=13, lead="Hm. ", mix={"mod": 3, "reverse": 1}),
    # The policy's first stage: it learns to copy.
    "tiny-reader": Member(
        steps=2000,
        seed=21,
        mix={kind: 1 for kind in KINDS},
        base="tiny-base",
        solo_only=0.05,
        follows={kind: 1.0 for kind in KINDS},
    ),
    "tiny-policy": Member(
        steps=2400,
        seed=21,
        mix={kind: 1 for kind in KINDS},
        base="tiny-reader",
        follows={"add": 0.9, "max": 0.5, "reverse": 0.5, "mod": 0.9},
        apart=True,
    ),
    "tiny-dot": expert(steps=700, seed=32, mix={"add": 3, "reverse": 1}),
    "tiny-eve": expert(steps=700, seed=33, mix={"mod": 3, "max": 1}),
}

# Trained after those, from the prompts of all protocols whose members speak in words.
PRACTISED = {
    "tiny-ada": practised("first-ada", steps=2400),
    "tiny-bo": practised("first-bo", steps=1800),
    "tiny-cy": practised("first-cy", steps=2400),
}
MEMBERS |= PRACTISED

# Trained on the way to another, and not kept.
STAGES = ["tiny-reader", "first-ada", "first-bo", "first-cy"]
