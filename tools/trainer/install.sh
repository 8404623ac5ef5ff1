#!/bin/sh
# Installs a real server of the Tinker protocol for `npm run test:trainer`: SkyRL's JAX backend, on the CPU.
#
#   tools/trainer/install.sh [DIRECTORY]        default: .consort/trainer
#
#   PYTHON        a Python of 3.12 or later; else the first that is found
#   TORCH_INDEX   a package index with CPU builds of torch. It is only needed for the format of adapters, and the
#                 default build brings some 5 GB of CUDA libraries that nothing here uses.
set -eu

directory=${1:-.consort/trainer}

python=
for candidate in ${PYTHON:-} python3.12 python3.13 python3.14 python3; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo 'SkyRL 0.4 needs Python 3.12 or later: install one, or name it in PYTHON.' >&2
  exit 1
fi

"$python" -m venv "$directory"
pip="$directory/bin/python -m pip install --disable-pip-version-check --quiet"
# First, so that the rest finds it and does not bring another.
if [ -n "${TORCH_INDEX:-}" ]; then
  $pip --index-url "$TORCH_INDEX" torch
fi
# aiohttp: skyrl 0.4.0 imports it without asking for it. uv: its API starts its engine with `uv run`.
$pip 'skyrl[tinker,jax]==0.4.0' 'tinker==0.25.0' 'aiohttp>=3.10' uv
"$directory/bin/python" -c 'import jax, peft, skyrl.tinker.api, torch'
echo "Installed in $directory. Now: npm run test:trainer"
