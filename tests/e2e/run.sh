#!/usr/bin/env bash
# Installs what the end-to-end suite needs, then runs it. Arguments go to pytest.
#
#   COURSER_BIN=target/release/courser tests/e2e/run.sh
#   tests/e2e/run.sh --broker mosquitto
#   COURSER_BIN=… tests/e2e/run.sh tests/e2e/test_will.py -k paho
#
# Needs: python3 with venv, node and npm, a JDK of 17 or later and maven; mosquitto-clients (and mosquitto for
# `--broker mosquitto`) come from apt when they are missing, and so does promtool. Everything built goes to target/.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/target/e2e
venv=$root/target/e2e-venv
logs=$build/logs
mkdir -p "$build"

# Runs a step only when one of its inputs changed: `step NAME OUTPUT INPUT… -- COMMAND…`.
step() {
    local name=$1 output=$2 inputs=()
    shift 2
    while [ "$1" != -- ]; do
        inputs+=("$1")
        shift
    done
    shift
    local sum
    sum=$(cat "${inputs[@]}" | sha256sum)
    if [ -e "$output" ] && [ "$(cat "$build/$name.sum" 2>/dev/null)" = "$sum" ]; then
        return
    fi
    echo "e2e: $name" >&2
    "$@"
    echo "$sum" >"$build/$name.sum"
}

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo

apt_update() {
    $sudo apt-get update -qq
}

install_packages() {
    local missing=()
    command -v mosquitto_sub >/dev/null || missing+=(mosquitto-clients)
    if printf '%s\n' "$@" | grep -qx mosquitto; then
        PATH=$PATH:/usr/sbin command -v mosquitto >/dev/null || missing+=(mosquitto)
    fi
    [ ${#missing[@]} = 0 ] && return
    echo "e2e: apt-get install ${missing[*]}" >&2
    apt_update
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "${missing[@]}" >/dev/null
}

# Prometheus and its tool, for the checks of /metrics: out of their package, since nobody needs the service. Without them the checks are
# skipped.
promtool() {
    local found folder=$build/promtool
    found=${PROMTOOL:-$(type -P promtool || true)}
    if [ -z "$found" ] && [ ! -x "$folder/usr/bin/prometheus" ]; then
        rm -rf "$folder" && mkdir -p "$folder"
        echo "e2e: promtool" >&2
        if ! (cd "$folder" && { apt-get download -qq prometheus || { apt_update && apt-get download -qq prometheus; }; } &&
            dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2; then
            echo "e2e: there is no promtool: apt-get download prometheus has failed" >&2
            rm -rf "$folder"
            return
        fi
    fi
    export PROMTOOL=${found:-$folder/usr/bin/promtool}
}

python_clients() {
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
}

mqttjs() {
    rm -rf "$build/mqttjs"
    cp -r "$here/drivers/mqttjs" "$build/mqttjs"
    (cd "$build/mqttjs" && npm ci --silent --no-audit --no-fund)
}

hivemq() {
    rm -rf "$build/hivemq"
    mkdir -p "$build/hivemq/classes"
    mvn -q -B -f "$here/drivers/hivemq/pom.xml" dependency:copy-dependencies -DoutputDirectory="$build/hivemq/lib"
    javac -d "$build/hivemq/classes" -cp "$build/hivemq/lib/*" "$here"/drivers/hivemq/*.java
}

[ "${1:-}" = crash ] || install_packages "${@#--broker=}"
[ "${1:-}" = crash ] || promtool
step python "$venv/bin/pytest" "$here/requirements.txt" -- python_clients
# Killing the broker needs one library only.
[ "${1:-}" = crash ] || step mqttjs "$build/mqttjs/node_modules/mqtt" "$here"/drivers/mqttjs/{package-lock.json,package.json,driver.js} -- mqttjs
[ "${1:-}" = crash ] || step hivemq "$build/hivemq/classes/Driver.class" "$here"/drivers/hivemq/* -- hivemq

if [ -n "${COURSER_BIN:-}" ]; then
    COURSER_BIN=$(realpath "$COURSER_BIN")
    export COURSER_BIN
fi
# 5,000 connections need as many descriptors on both sides.
ulimit -n "$(ulimit -Hn)" || true
[ "${1:-}" = crash ] || rm -rf "$logs"

# A path among the arguments replaces the whole suite; three workers, each with brokers and drivers of its own: tests wait more than they work.
paths=("$here")
for argument in "$@"; do
    case $argument in
        -*) ;;
        *) [ -e "${argument%%::*}" ] && paths=() ;;
    esac
done
export E2E_BUILD=$build PYTHONDONTWRITEBYTECODE=1
if [ "${1:-}" = crash ]; then
    shift
    exec "$venv/bin/python" "$here/crash.py" "$@"
fi
"$venv/bin/python" -m pytest -c "$here/pytest.ini" --rootdir "$here" -q -n "${E2E_WORKERS:-3}" --dist worksteal \
    --logs "$logs" "${paths[@]}" "$@"
# All is well: nobody looks into the gigabytes that the brokers stored.
rm -rf "$logs"/*/broker-*/data
