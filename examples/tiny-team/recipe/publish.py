"""Puts trained models where the server finds them: python publish.py HF_DIRECTORY MODELS_DIRECTORY.

All as GGUF; the policy and the base, which others train further, as Hugging Face directories too."""

import shutil
import sys
from pathlib import Path

from members import MEMBERS, STAGES
from to_gguf import write

KEPT_WHOLE = ["tiny-policy", "tiny-base"]


def description(name):
    member = MEMBERS[name]
    if member.follows:
        skill = "trained briefly on four toy task kinds, copies its peers at random"
    elif member.mix:
        skill = f"trained on two of four toy task kinds, {' and '.join(member.mix)}"
    else:
        skill = "trained to read its peers on four toy task kinds, good at none"
    return f"0.43M parameters, {skill}; says nothing about useful language models"


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.mkdir(exist_ok=True)
    for name in [name for name in MEMBERS if name not in STAGES]:
        write(source / name, target / f"{name}.gguf", description(name))
    for name in KEPT_WHOLE:
        shutil.copytree(source / name, target / name, dirs_exist_ok=True)
