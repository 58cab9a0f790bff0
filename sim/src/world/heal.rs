//! After the faults: everything must converge, serve, and every acknowledged message is counted again (I13).

use courser_engine::Limits;

use super::World;
use crate::client::Client;

/// Longest time without anything new, in virtual milliseconds, before all has converged. A connection may have to wait for
/// patience (10 s) twice.
const STUCK_MS: u64 = 120_000;
/// Longest time to converge. A session of window 1 gets one message a round trip with its commits, of a backlog of thousands.
const CONVERGE_MS: u64 = 10 * STUCK_MS;
/// So long nothing may happen before all is taken to have come.
const QUIET_MS: u64 = 3_000;

impl World {
    pub(super) fn heal(&mut self) {
        if self.failed() {
            return;
        }
        self.healing = true;
        self.heal_disk();
        self.retain_all();
        self.oracle.heals(self.now);
        self.note(format_args!("faults end"));
        if !self.converge("after the faults") {
            return;
        }
        if !self.has_drained() {
            return;
        }
        let clients = self.clients.len();
        for client in 0..clients {
            self.with_client(client, |it, ctx| it.publish_last(ctx));
        }
        if !self.converge("while serving") {
            return;
        }
        self.check_replays();
        self.probe();
        self.count_log();
        if !self.failed() {
            self.count_dropped();
            let dropped = self.counts.dropped();
            self.oracle.recount(self.now, dropped);
            self.check_counted();
        }
    }

    /// More may be retained: a client that could not be told of a refusal goes on when its message is kept (M28).
    fn retain_all(&mut self) {
        if self.plan.retains_few() {
            let limits = &mut self.plan.limits;
            limits.retained_messages_max = Limits::default().retained_messages_max;
            for shard in &mut self.shards {
                shard.set_limits(&self.plan.limits);
            }
        }
    }

    /// Runs until every client is connected and has nothing open, and then until nothing comes any more.
    fn converge(&mut self, when: &str) -> bool {
        let end = self.now + CONVERGE_MS;
        let mut moved = (self.counts.delivered, self.now);
        while !self.failed() {
            let step = self.now + 250;
            self.run_until(step);
            if self.counts.delivered > moved.0 {
                moved = (self.counts.delivered, self.now);
            }
            let quiet = self.now.saturating_sub(QUIET_MS + 2 * self.plan.commit_ms);
            let is_quiet = self.clients.iter().all(|client| client.is_settled(quiet));
            if is_quiet && !self.awaits_operator() {
                return !self.failed();
            }
            if self.now >= end || self.now >= moved.1 + STUCK_MS {
                let stuck = self
                    .clients
                    .iter()
                    .filter(|client| !client.is_settled(quiet));
                let stuck: Vec<_> = stuck.map(Client::describe).collect();
                let text = format!("I13: not settled {when}: {}", stuck.join("; "));
                self.oracle.fail(text);
            }
        }
        false
    }

    /// A new subscriber gets exactly the last retained value of each topic (M33, M34).
    fn probe(&mut self) {
        let place = self.clients.len();
        let mut rng = self.rng.split();
        self.clients
            .push(Client::probe(place, &self.plan, &mut rng));
        self.at(self.now, super::Event::Deed(place));
        let until = self.now + QUIET_MS + 6 * self.plan.commit_ms + 12 * self.plan.link_ms + 2_000;
        self.run_until(until);
        if let Some(found) = self.clients.last().and_then(Client::probed) {
            self.oracle.check_retained(found);
        } else if !self.failed() {
            self.oracle
                .fail("I13: the last subscriber got no SUBACK".to_owned());
        }
    }
}
