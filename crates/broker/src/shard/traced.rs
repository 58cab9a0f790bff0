//! Connections whose clients operators watch: from CONNECT on, also of those that are refused.

use courser_contract::FrontId;

use super::Shard;
use super::connection::Connection;
use super::fronts::Access;
use crate::control::TracePage;

impl Shard {
    /// Lines of a client's trace; its connection has a part in it from now on.
    pub(super) fn trace(
        &mut self,
        client_id: &str,
        front: Option<FrontId>,
        from: u64,
    ) -> Option<TracePage> {
        let now = self.hub.now.tick;
        let page = self.hub.watch.traces.ask(now, client_id, from)?;
        if let Some(front) = front
            && let Access::Here(connection) = self.fronts.get(front)
            && connection.tracer.as_ref().is_none_or(|it| it.is_over(now))
        {
            let seen = connection.front.output().len();
            let version = connection.front.version();
            connection.tracer = self.hub.watch.traces.tracer(client_id, version, seen);
        }
        Some(page)
    }

    /// Whole packets of a client that may be watched, after the front has handled them.
    #[cold]
    pub(super) fn trace_received(&self, connection: &mut Connection, bytes: &[u8]) {
        let now = self.hub.now;
        let awaits = |it: &Connection| it.tracer.as_ref().is_some_and(|it| it.awaits_connect());
        if awaits(connection) && !bytes.is_empty() {
            self.trace_connect(connection);
        }
        if let Some(tracer) = &connection.tracer {
            tracer.received(now, bytes);
            connection.tracer.take_if(|it| it.is_over(now.tick));
        }
    }

    /// Its first packet has come: it is watched from there on, or not at all.
    fn trace_connect(&self, connection: &mut Connection) {
        let version = connection.front.version();
        let traces = &self.hub.watch.traces;
        // What answers that packet is in the output, and not written yet.
        connection.tracer = traces.tracer(connection.front.client_id(), version, 0);
        if let Some(tracer) = &connection.tracer {
            let listener = &connection.peer.entrance.name;
            let what = match connection.peer.address {
                Some(address) => format!("comes from {address}, listener {listener:?}"),
                None => format!("comes, listener {listener:?}"),
            };
            tracer.note(self.hub.now, what);
        }
    }
}
