//! Answers about retained messages.

use courser_contract::{Append, AppendKey, PartitionId, Publish, QoS};
use courser_engine::RetainedView;

use super::super::Shard;
use super::super::budget::Budget;
use crate::control::{Page, RetainedMessage, RetainedRow};

/// Retained messages of one answer, and topics that one question looks at.
const RETAINED_AT_ONCE: (usize, usize) = (256, 1_024);
/// Bytes of a retained payload that an operator sees.
const PAYLOAD_SHOWN_MAX: usize = 64 * 1024;

impl Shard {
    pub(super) fn retained_rows(
        &mut self,
        id: PartitionId,
        filter: &str,
        after: Option<&str>,
    ) -> Page<RetainedRow, Box<str>> {
        let page = self
            .owned(id)
            .retained_page(filter, after, RETAINED_AT_ONCE);
        let (visits, next) = (page.visits as i64, page.next.clone());
        let rows: Vec<_> = page.found.iter().map(retained_row).collect();
        self.hub
            .budget
            .spend(visits * Budget::DELIVERY + rows.len() as i64 * Budget::ROW);
        Page { rows, next }
    }

    pub(super) fn retained_message(
        &mut self,
        id: PartitionId,
        topic: &str,
    ) -> Option<RetainedMessage> {
        let view = self.owned(id).retained_of(topic)?;
        let shown = view.record.payload.len().min(PAYLOAD_SHOWN_MAX);
        Some(RetainedMessage {
            row: retained_row(&view),
            payload: view.record.payload[..shown].to_vec(),
        })
    }

    /// Takes the messages of these topics away.
    pub(super) fn clear_all_retained(&mut self, id: PartitionId, topics: &[Box<str>]) {
        for topic in topics {
            self.clear_retained(id, topic);
        }
        self.hub.budget.spend(topics.len() as i64 * Budget::SCAN);
    }

    /// As an empty publish with RETAIN does (v5 [MQTT-3.3.1-6]), but for nobody to get.
    fn clear_retained(&mut self, id: PartitionId, topic: &str) {
        let publish = Publish {
            topic,
            properties: &[],
            payload: &[],
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at: None,
            publisher: None,
            author: None,
        };
        let append = Append {
            key: AppendKey::Unanswered,
            publish: &publish,
            keep_retained: true,
            deliver: false,
            cut: self.hub.cut(id),
        };
        self.append_here(id, &append);
    }
}

fn retained_row(view: &RetainedView<'_>) -> RetainedRow {
    let record = &view.record;
    RetainedRow {
        topic: view.lost.as_deref().unwrap_or(record.topic).into(),
        qos: record.qos,
        payload_bytes: record.payload.len() as u64,
        expires_at: record.expires_at,
        address: view.address,
        is_lost: view.lost.is_some(),
    }
}
