#!/bin/sh
# Trains all models and puts them where the server finds them: recipe/make.sh [WORK_DIRECTORY]
# Needs the packages of requirements.txt in $PYTHON and a Node.js of version 24 in $NODE; one thread, see the README.
set -eu
recipe=$(dirname "$(realpath "$0")")
models=$recipe/../models
work=${1:-$(mktemp -d)}
python=${PYTHON:-python3}
node=${NODE:-node}

mkdir -p "$work"
"$node" "$recipe/../render-prompts.ts" "$work/prompts.jsonl"
"$node" "$recipe/../render-prompts.ts" "$work/protocols.jsonl" --protocols
"$python" "$recipe/tokenizer.py" "$work/prompts.jsonl" "$work/tokenizer"
"$python" -u "$recipe/train.py" "$work/prompts.jsonl" "$work/tokenizer" "$work/hf"
"$python" -u "$recipe/train.py" "$work/protocols.jsonl" "$work/tokenizer" "$work/hf" tiny-ada tiny-bo tiny-cy
"$python" "$recipe/publish.py" "$work/hf" "$models"
"$python" "$recipe/check.py" "$work/prompts.jsonl" "$work/hf" "$node"
"$python" "$recipe/check_adapter.py" "$work/prompts.jsonl" "$node"
"$node" "$recipe/../measure.ts"
