#!/bin/sh
# Runs the protocol of slots and presences, and that of the two copies of the trie, under loom: every interleaving of every
# order that the memory model allows, in seconds. Exits non-zero if anything fails. Environment: CARGO_TARGET_DIR.
set -eu
cd "$(dirname "$0")/../.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/loom" RUSTFLAGS="--cfg loom"
export CARGO_PROFILE_DEV_OPT_LEVEL=2 CARGO_PROFILE_DEV_DEBUG=0
cargo test --locked --package courser-router --lib loom
cargo test --locked --package courser-trie --lib loom
