#!/bin/sh
# Builds the wheel with maturin in a virtual environment of its own, installs it there, and runs the tests.
# Exits non-zero if anything fails. Environment: CARGO_TARGET_DIR, PYTHON, VENV (kept if given).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
venv=${VENV:-$out/venv}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2' 'pytest>=8'
"$venv/bin/maturin" build --locked --quiet --release --interpreter "$venv/bin/python" --out "$out/wheels"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall "$out"/wheels/*.whl
"$venv/bin/python" -m pytest -q -p no:cacheprovider tests
