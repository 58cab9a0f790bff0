"""What a library cannot do, and what Mosquitto does otherwise: one table each, every entry with its reason.

`GAPS`: an adapter raises `Unsupported(feature)`, the test is then counted as an expected failure with the reason from here.
An entry that no test ran into during a whole run is out of date, and fails the run.

`CANNOT`: (library, test) pairs in which the library itself behaves in another way; the test still runs and is expected to
fail, strictly: should it pass, the entry must go. `run=False` only where running would hang or kill the client.

`DEVIATIONS`: the same for `--broker mosquitto` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

# library -> feature -> reason
GAPS: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class Expected:
    """`test` is a pattern for the test's name with its parameters, such as `test_will_delay[paho-v5]`."""

    test: str
    reason: str
    run: bool = True
    strict: bool = True


CANNOT: list[Expected] = []

DEVIATIONS: list[Expected] = [
    Expected("test_takeover[*-v5]", "Mosquitto 2.0.11 closes the older connection without DISCONNECT 0x8E"),
    Expected("test_overlapping_subscriptions[*]", "Mosquitto sends a copy for each subscription (5.0), or that of the first match"),
    Expected("test_subscription_identifiers[*]", "Mosquitto sends a copy for each subscription, each with one identifier"),
    Expected("test_shared_and_plain_of_one_client[*-v3]", "Mosquitto drops the second copy for a 3.1.1 client as a duplicate"),
    Expected("test_no_retained_for_shared[*]", "Mosquitto 2.0.11 sends retained messages to shared subscriptions"),
    Expected("test_will_delay_cut_by_clean_start[*]", "Mosquitto 2.0.11 loses the delayed will at a clean start"),
    Expected("test_redelivery_to_another_member[*]", "Mosquitto drops what a member held when its session ends"),
]


def expected(name: str, broker: str) -> Expected | None:
    """The entry for a test, if any."""
    table = CANNOT + (DEVIATIONS if broker == "mosquitto" else [])
    return next((entry for entry in table if fnmatchcase(name, entry.test.replace("[", "[[]"))), None)
