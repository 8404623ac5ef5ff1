"""Who is trained on what."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Member:
    steps: int
    seed: int
    # How often each kind comes in bare questions; in prompts with peers' answers all kinds come equally often.
    mix: dict = field(default_factory=dict)
    lead: str = ""
    # "truth": the right answer is always the target. "follow": with peers, it is as often one of theirs, taken
    # blindly, so that the model starts with no idea of whom to trust.
    target: str = "truth"
    # The model whose weights it starts from; none: from scratch.
    base: str | None = None
    rate: float = 3e-3


EVEN = {"add": 1, "max": 1, "reverse": 1, "mod": 1}

MEMBERS = {
    "tiny-ada": Member(steps=2000, seed=11, lead="Sure. ", mix={"add": 14, "max": 5, "reverse": 1, "mod": 1}),
    "tiny-bo": Member(steps=1600, seed=12, lead="Okay. ", mix={"add": 1, "max": 6, "reverse": 12, "mod": 1}),
    "tiny-cy": Member(steps=2000, seed=13, lead="Hm. ", mix={"add": 1, "max": 1, "reverse": 6, "mod": 12}),
    "tiny-policy": Member(steps=700, seed=21, mix=EVEN, target="follow"),
    "tiny-base": Member(steps=1000, seed=31, mix=EVEN),
    "tiny-dot": Member(
        steps=700, seed=32, base="tiny-base", rate=1e-3, mix={"add": 12, "max": 1, "reverse": 6, "mod": 1}
    ),
    "tiny-eve": Member(
        steps=700, seed=33, base="tiny-base", rate=1e-3, mix={"add": 1, "max": 6, "reverse": 1, "mod": 12}
    ),
}
