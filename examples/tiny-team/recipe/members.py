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
    # Whether it says, more often than not, what a random peer says: a start with no idea of whom to trust.
    follows: bool = False
    rate: float = 3e-3


def expert(steps, seed, mix, lead="", rate=2e-3):
    return Member(steps, seed, mix, lead, base="tiny-base", solo_only=0.4, rate=rate)


# In the order of training: tiny-base has learned to read peers and no kind, and the experts start from it.
MEMBERS = {
    "tiny-base": Member(steps=1800, seed=31),
    "tiny-ada": expert(steps=1300, seed=11, lead="Sure. ", mix={"add": 3, "max": 1}),
    "tiny-bo": expert(steps=900, seed=12, lead="Okay. ", mix={"reverse": 1, "max": 1}),
    "tiny-cy": expert(steps=1300, seed=13, lead="Hm. ", mix={"mod": 3, "reverse": 1}),
    "tiny-policy": Member(
        steps=900, seed=21, mix={"add": 1, "max": 1, "reverse": 1, "mod": 1}, solo_only=0.5, follows=True
    ),
    "tiny-dot": expert(steps=700, seed=32, mix={"add": 3, "reverse": 1}),
    "tiny-eve": expert(steps=700, seed=33, mix={"mod": 3, "max": 1}),
}
