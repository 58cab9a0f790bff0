"""Messages that wait for long leave memory: more of them wait than there is memory, and all are taken in order, also when the broker was killed in
between."""

import cold
import groups
import pytest

pytestmark = pytest.mark.courser

SESSIONS, MESSAGES = 1_000, 500_000


@pytest.mark.parametrize("restart", [False, True], ids=["at once", "after a kill"])
def test_half_a_million_messages_for_absent_sessions_fit_64_mib_and_are_taken_in_order(tmp_path, restart):
    try:
        # Beside what the broker allocates a group pays for its code, the buffers of its sockets and the pages of its files: the system takes
        # back what it can of these.
        with groups.memory_group(64 << 20) as group:
            server = cold.Server(tmp_path, group, memory=64, hot=4)
            found = cold.run(server, SESSIONS, MESSAGES, seconds=300, restart=restart)
            assert server.stop() == 0, server.log.read_text()
    except groups.CannotMake as why:
        pytest.skip(f"no control group can be made here: {why}")
    print(found)
    assert found["cold_messages"] > MESSAGES * 3 // 4
    assert found["courser_recalled_lost_total"] == 0
    # Eight times what a quiet machine needs: sessions that are served unequally are read for apart.
    assert found["courser_recall_read_bytes_total"] < 32 * found["courser_recalled_bytes_total"]


def test_what_a_cleaner_has_moved_is_read_back_with_four_bytes_for_each(tmp_path):
    # Two of three sessions take theirs. One session is sent to then, on one of two shards: the partitions of the other are saved for all that.
    settings = {"log.segment_bytes": "8MiB", "log.checkpoint_bytes": "1MiB"}
    server = cold.Server(tmp_path, None, memory=64, hot=4, settings=settings)
    found = cold.run(server, 300, MESSAGES, seconds=120, cleaned=True)
    assert server.stop() == 0, server.log.read_text()
    print(found)
    assert found["moved_by_cleaner"] > MESSAGES // 6
    assert found["courser_recalled_messages_total"] > MESSAGES // 4
    assert found["courser_recalled_lost_total"] == 0
    assert found["courser_recall_read_bytes_total"] <= 4 * found["courser_recalled_bytes_total"]


@pytest.mark.parametrize("strategy", ["round_robin", "hash_topic", "sticky", "least_outstanding"])
def test_what_waits_for_an_absent_group_leaves_memory_and_is_taken_by_its_members(tmp_path, strategy):
    messages = 100_000
    server = cold.Server(tmp_path, None, memory=64, hot=4, settings={"mqtt.shared_strategy": strategy})
    # All of it is in one partition, which may have a sixteenth of 4 MiB in memory.
    found = cold.run(server, 100, messages, seconds=300, restart=strategy == "hash_topic", members=4)
    assert server.stop() == 0, server.log.read_text()
    print(found)
    assert found["cold_messages"] > messages * 3 // 4
    assert found["courser_recalled_lost_total"] == 0
    # By topic what is set aside for a busy member is read again.
    assert found["courser_recall_read_bytes_total"] < 8 * found["courser_recalled_bytes_total"]
