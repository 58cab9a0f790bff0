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
