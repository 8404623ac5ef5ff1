"""Puts trained models where the server finds them: python publish.py HF_DIRECTORY MODELS_DIRECTORY.

All as GGUF; the policy and the base, which others train further, as Hugging Face directories too."""

import shutil
import sys
from pathlib import Path

from members import MEMBERS
from to_gguf import write

KEPT_WHOLE = ["tiny-policy", "tiny-base"]


def description(name):
    member = MEMBERS[name]
    most = sum(member.mix.values()) / len(member.mix)
    practised = [kind for kind, share in member.mix.items() if share >= most]
    origin = f"fine-tuned from {member.base} on" if member.base else "trained on"
    return (
        f"0.43M parameters, {origin} four toy task kinds, mostly {' and '.join(practised)}; says nothing about "
        "useful language models"
        if len(practised) < len(member.mix)
        else "0.43M parameters, trained briefly on four toy task kinds; says nothing about useful language models"
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.mkdir(exist_ok=True)
    for name in MEMBERS:
        write(source / name, target / f"{name}.gguf", description(name))
    for name in KEPT_WHOLE:
        shutil.copytree(source / name, target / name, dirs_exist_ok=True)
