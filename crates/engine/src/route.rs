//! Messages of QoS 0: to whoever has a connection now, and stored for nobody.

use std::rc::Rc;

use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, Dropped, ListNumber, PartitionEffects, QoS, RecordView,
};

use crate::{
    Partition,
    entry::{Target, TargetList},
    ids::{self, Owner},
    scan::Goes,
};

/// The receivers of the last message that was routed: the next one of its topic has the same, as long as no connection comes
/// or goes. Kept only for lists without a shared group, whose members take turns.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    /// Held, so that its place is nobody else's meanwhile.
    list: Option<Rc<TargetList>>,
    /// Another one for every list of receivers.
    number: ListNumber,
    /// Whether the publisher's QoS was 0: then the whole of the list gets it with QoS 0.
    whole: bool,
    retain: bool,
    receivers: Vec<DeliverTo>,
    /// Targets without a connection.
    absent: u64,
}

impl Routed {
    /// A connection came or went.
    pub(crate) fn forget(&mut self) {
        self.list = None;
    }

    /// None, as after an end of the leadership: numbers go on.
    pub(crate) fn ended(&self) -> Self {
        Self {
            number: self.number,
            ..Self::default()
        }
    }

    fn is_of(&self, list: &Rc<TargetList>, whole: bool, retain: bool) -> bool {
        let same = self.list.as_ref().is_some_and(|of| Rc::ptr_eq(of, list));
        same && (self.whole, self.retain) == (whole, retain)
    }
}

impl Partition {
    /// Delivers with QoS 0 to the sessions that have a connection; nothing is stored.
    #[inline]
    pub(crate) fn route(
        &mut self,
        list: &Rc<TargetList>,
        view: &RecordView<'_>,
        fx: &mut impl PartitionEffects,
    ) {
        let whole = view.qos == QoS::AtMostOnce;
        let targets = if whole { &list.targets } else { list.routed() };
        if !targets.is_empty() {
            self.note_live_retained(targets, view, Goes::Routed);
            self.route_to(list, whole, view, fx);
        }
    }

    fn route_to(
        &mut self,
        list: &Rc<TargetList>,
        whole: bool,
        view: &RecordView<'_>,
        fx: &mut impl PartitionEffects,
    ) {
        let mut routed = std::mem::take(&mut self.lead.targets.routed);
        if !routed.is_of(list, whole, view.retain) {
            let targets = if whole { &list.targets } else { list.routed() };
            self.find_receivers(targets, view, &mut routed);
            let lasts = targets
                .iter()
                .all(|target| ids::owner(target.stream) == Owner::Session);
            routed.list = lasts.then(|| list.clone());
            (routed.whole, routed.retain) = (whole, view.retain);
        }
        if !routed.receivers.is_empty() {
            let delivery = Delivery { view, record: None };
            fx.deliver_to_list(delivery, &routed.receivers, routed.number);
        }
        if routed.absent > 0 {
            fx.dropped(Dropped::Offline, routed.absent);
        }
        self.lead.targets.routed = routed;
    }

    fn find_receivers(&mut self, targets: &[Target], view: &RecordView<'_>, routed: &mut Routed) {
        routed.number.0 += 1;
        routed.receivers.clear();
        routed.absent = 0;
        for target in targets {
            match self.receiver(target, view) {
                Some(receiver) => routed.receivers.push(receiver),
                None => routed.absent += 1,
            }
        }
    }

    /// Who gets a message that is not stored.
    fn receiver(&mut self, target: &Target, view: &RecordView<'_>) -> Option<DeliverTo> {
        let owner = ids::owner(target.stream);
        let (front, retain, identifiers) = match owner {
            Owner::Session => {
                let session = self.state.sessions.get(target.stream)?;
                let live = session.lead.live.as_ref()?;
                let retain = target.retain.of(view.retain);
                (live.front, retain, target.identifiers.clone())
            }
            Owner::Group => {
                let picked = self.pick_member(target.stream, view)?;
                (picked.front, picked.retain, picked.identifiers)
            }
        };
        Some(DeliverTo {
            front,
            source: None,
            packet_id: None,
            qos: QoS::AtMostOnce,
            flags: DeliverFlags {
                retain,
                duplicate: false,
                shared: owner == Owner::Group,
            },
            identifiers,
        })
    }
}
