"""Fixtures: the broker (one a worker), `mqtt` (each library, each version) and `raw` (sockets, each version)."""

from __future__ import annotations

import contextlib
import fcntl
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import gaps
import namespace
from broker import BROKERS, Broker
from clients.base import Unsupported
from scenario import Library, Raw, library_names
from wire import V3, V5


def pytest_addoption(parser):
    parser.addoption("--broker", default="courser", choices=sorted(BROKERS), help="the broker under test")
    parser.addoption("--logs", default=None, help="folder for the brokers' logs (kept)")


def pytest_configure(config):
    config.addinivalue_line("markers", "v5: MQTT 5.0 only")
    config.addinivalue_line("markers", "v3: MQTT 3.1.1 only")
    config.addinivalue_line("markers", "courser: needs the courser binary itself")
    config.addinivalue_line("markers", "restart: also run with the broker stopped and started before each session is taken up again")
    config.addinivalue_line("markers", "kill: the same with the broker killed")


def versions_of(metafunc) -> list[int]:
    wanted = {mark.name for mark in metafunc.definition.iter_markers()} & {"v3", "v5"}
    return [version for version, name in ((3, "v3"), (5, "v5")) if not wanted or name in wanted]


def restarts_of(metafunc) -> list[str]:
    """What is done to the broker before a session is taken up again: nothing, and what the markers say."""
    wanted = {mark.name for mark in metafunc.definition.iter_markers()}
    return ["", *(name for name in ("restart", "kill") if name in wanted)]


def pytest_generate_tests(metafunc):
    versions = versions_of(metafunc)
    restarts = restarts_of(metafunc)
    if "mqtt" in metafunc.fixturenames:
        # With restarts one library is enough: what is looked at is the broker.
        found = [
            pytest.param((library, version, restart), id="-".join(filter(None, (library, f"v{version}", restart))), marks=marks(restart))
            for restart in restarts
            for library in (library_names()[:1] if restart else library_names())
            for version in versions
        ]
        metafunc.parametrize("mqtt", found, indirect=True)
    elif "raw" in metafunc.fixturenames:
        found = [
            pytest.param((version, restart), id="-".join(filter(None, (f"v{version}", restart))), marks=marks(restart))
            for restart in restarts
            for version in versions
        ]
        metafunc.parametrize("raw", found, indirect=True)


def marks(restart: str) -> list:
    """Only a broker with a data folder remembers."""
    return [pytest.mark.courser] if restart else []


def pytest_collection_modifyitems(config, items):
    broker = config.getoption("--broker")
    for item in items:
        if broker != "courser" and item.get_closest_marker("courser"):
            item.add_marker(pytest.mark.skip(reason="needs the courser binary"))
        entry = gaps.expected(item.name, broker)
        if entry:
            item.add_marker(pytest.mark.xfail(reason=entry.reason, run=entry.run, strict=entry.strict))


class Brokers:
    """Starts brokers of the kind under test; those with the same settings are shared within a worker."""

    def __init__(self, kind: type[Broker], folder: Path):
        self.kind, self.folder = kind, folder
        self.shared: dict[tuple, Broker] = {}
        self.owned: list[Broker] = []
        self.count = 0

    def own(self, **settings) -> Broker:
        """A broker of this test alone; the test may stop it."""
        self.count += 1
        found = self.kind(self.folder / f"broker-{self.count}", settings)
        self.owned.append(found)
        return found.start()

    def common(self, **settings) -> Broker:
        key = tuple(sorted(settings.items()))
        if key not in self.shared:
            self.shared[key] = self.own(**settings)
        self.shared[key].check_alive()
        return self.shared[key]

    def stop(self) -> None:
        for broker in self.shared.values():
            broker.check_alive()
        # Also those of tests that failed before they stopped theirs.
        for broker in self.owned:
            broker.stop()


@pytest.fixture(autouse=True)
def own_contexts(tmp_path, monkeypatch):
    """`courser context` neither finds those of the person who runs the tests nor leaves one there, or to another test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def default_ports(tmp_path_factory):
    """No other test has the ports meanwhile that a server takes without settings: the folder above is that of all workers."""
    with (tmp_path_factory.getbasetemp().parent / "default-ports").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def network(default_ports):
    """How a command begins that has these ports for itself; nothing, where this user cannot make a network."""
    with contextlib.ExitStack() as ends:
        try:
            found = ends.enter_context(namespace.own_network())
        except namespace.CannotMake:
            found = []
        yield found


@pytest.fixture(scope="session")
def brokers(request, tmp_path_factory):
    """All brokers of this worker."""
    logs = request.config.getoption("--logs")
    worker = getattr(request.config, "workerinput", {}).get("workerid", "main")
    folder = Path(logs).resolve() / worker if logs else tmp_path_factory.mktemp("brokers")
    found = Brokers(BROKERS[request.config.getoption("--broker")], folder)
    yield found
    found.stop()


@pytest.fixture
def broker(brokers) -> Broker:
    """The broker that most tests share; it must be alive before and after each."""
    found = brokers.common()
    yield found
    found.check_alive()


def broker_for(request, restart: str) -> Broker:
    """One that is stopped is nobody else's."""
    return request.getfixturevalue("brokers").own() if restart else request.getfixturevalue("broker")


@pytest.fixture
def mqtt(request) -> Library:
    name, version, restart = request.param
    library = Library(broker_for(request, restart), name, version)
    library.restarts = restart
    yield library
    for client in library.made:
        client.release()
    if restart:
        assert library.broker.stop() == 0


@pytest.fixture
def raw(request) -> Raw:
    version, restart = request.param
    found = Raw(broker_for(request, restart), V5 if version == 5 else V3)
    found.restarts = restart
    yield found
    found.release()
    if restart:
        assert found.broker.stop() == 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Turns `Unsupported` into an expected failure, if the gap is in the table."""
    outcome = yield
    error = outcome.excinfo[1] if outcome.excinfo else None
    if isinstance(error, Unsupported) and "mqtt" in getattr(item, "fixturenames", ()):
        library = item.callspec.params["mqtt"][0]
        reason = gaps.GAPS.get(library, {}).get(error.feature)
        if reason is None:
            return
        item.user_properties.append(("gap", f"{library}|{error.feature}"))
        try:
            pytest.xfail(f"{library} has no {error.feature}: {reason}")
        except BaseException as expected:
            outcome.force_exception(expected)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the end of the broker's log to a failure."""
    outcome = yield
    report = outcome.get_result()
    used = getattr(item, "funcargs", {})
    names = used.get("mqtt") or used.get("raw")
    if report.failed and (names or "broker" in used):
        found = names.broker if names else used["broker"]
        report.sections.append((f"log of {found.name}, port {found.port}, in {found.log}", found.tail()))


class Seen:
    """Gaps and outcomes seen by the process that prints the summary."""

    gaps: set[tuple[str, str]] = set()
    counts: dict[str, dict[str, int]] = {}


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome != "skipped":
        return
    for name, value in report.user_properties:
        if name == "gap":
            Seen.gaps.add(tuple(value.split("|", 1)))
    inside = report.nodeid.rpartition("[")[2].rstrip("]")
    library = inside.split("-")[0] if "-v" in inside else "raw socket"
    kind = "gap" if hasattr(report, "wasxfail") else report.outcome
    counts = Seen.counts.setdefault(library, {})
    counts[kind] = counts.get(kind, 0) + 1


def whole_run(config) -> bool:
    """Every test with every library: only then does an unused gap mean that the entry is out of date."""
    here = Path(__file__).parent
    chosen = [Path(argument).resolve() for argument in config.args]
    return chosen == [here] and not config.option.keyword and not config.option.markexpr and len(library_names()) == 5


def stale_gaps() -> list[tuple[str, str]]:
    return sorted(
        (library, feature) for library, found in gaps.GAPS.items() for feature in found if (library, feature) not in Seen.gaps
    )


def pytest_sessionfinish(session, exitstatus):
    if not hasattr(session.config, "workerinput") and exitstatus == 0 and whole_run(session.config) and stale_gaps():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    write = terminalreporter.write_line
    terminalreporter.section("libraries")
    for library, counts in sorted(Seen.counts.items()):
        write(f"{library:12} " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    terminalreporter.section("gaps of the libraries")
    for library, found in gaps.GAPS.items():
        for feature, reason in found.items():
            write(f"{library:12} {feature}: {reason}")
    for entry in gaps.CANNOT + (gaps.DEVIATIONS if config.getoption("--broker") == "mosquitto" else []):
        write(f"{entry.test}: {entry.reason}")
    if whole_run(config):
        for library, feature in stale_gaps():
            write(f"ERROR: the gap {library} / {feature} was not met by any test: take it out of gaps.py", red=True)
