//! Connections come: the client id is taken, the session is opened or taken up (M23, M24, M25).
//!
//! A client id has at most one holder. A second connection waits until the holder, told of it, has let go and everything of it
//! is settled; a third one displaces the second.

use compact_str::CompactString;
use courser_contract::{
    Attach, AttachStage, Attached, ConnectRefusal, DetachCause, Epoch, Fence, FrontId, HomeRef,
    PartitionEffects, PartitionId, Seq, SessionLimits, SessionUid, ToFront, Uptake, WallMs, Will,
    are_different_accounts, author_of, author_parts, owner_name,
};

use super::{Going, LastWords, Live, WillGoes, group_name};
use crate::{
    DiskRoom, Partition, PlantedPartition, SessionRoom,
    entry::{AttachFact, Rare},
    ids::Owner,
    lead::{After, Attaching, Client, Fenced, Holder, Role, Waiting},
    state::weight,
};

/// A will that one may bring while there is no room: as much as its session takes.
const SMALL_WILL_BYTES: usize = 512;

impl Partition {
    /// A connection asks for its session.
    pub(crate) fn attach(&mut self, attach: Box<Attach>, fx: &mut impl PartitionEffects) {
        if self.lead.role != Role::Leading {
            return refuse(attach.front, ConnectRefusal::Unavailable, fx);
        }
        match attach.stage {
            AttachStage::Open(epoch) => {
                self.open(&attach, epoch, CompactString::default(), fx);
            }
            AttachStage::Claim => self.claim(attach, fx),
        }
    }

    fn claim(&mut self, attach: Box<Attach>, fx: &mut impl PartitionEffects) {
        if !self.may_have(&attach) {
            return refuse(attach.front, ConnectRefusal::NotAuthorized, fx);
        }
        if !self.may_be_kept(&attach, fx) {
            return refuse(attach.front, ConnectRefusal::UserSessions, fx);
        }
        if !self.has_session_room(&attach) {
            return refuse(attach.front, ConnectRefusal::NoMemory, fx);
        }
        if !self.takes_disk_room(&attach) {
            return refuse(attach.front, ConnectRefusal::NoDisk, fx);
        }
        let planted_early = self.is_planted(PlantedPartition::LetInEarly);
        let since = self.wall();
        match self.lead.registry.clients.get_mut(&attach.client_id) {
            None => self.take_client(&attach, since, fx),
            Some(client) => {
                let client_id = planted_early.then(|| attach.client_id.clone());
                if let Some(displaced) = client.waiting.replace(Waiting { attach, since }) {
                    refuse(displaced.attach.front, ConnectRefusal::TakenOver, fx);
                }
                match client_id {
                    None => client.tell(fx),
                    Some(client_id) => self.let_in_early(client_id, fx),
                }
            }
        }
    }

    /// Whether there is memory for the session of a connection. Who has one takes messages away, or ends it: that gives back more than the
    /// connection takes. Where also those have no room that end with their connections, they bring no more than a small will.
    fn has_session_room(&self, attach: &Attach) -> bool {
        let ends = attach.expiry_seconds == 0;
        match self.session_room {
            SessionRoom::Enough => true,
            SessionRoom::Clean => ends || self.has_session_as_large(attach),
            SessionRoom::Short => {
                let bytes = attach.will.as_deref().map_or(0, weight::will_bytes);
                ends && bytes <= SMALL_WILL_BYTES || self.has_session_as_large(attach)
            }
            SessionRoom::None => self.has_session_as_large(attach),
        }
    }

    /// Whether what a connection would write has room on the disk, and takes that room (M47). While it is short, who has a session comes in, to
    /// take its messages away or to end it; nobody gets a new one that is kept. A will is written, and later goes to others who keep it: all
    /// that come while the disk is short are counted. The reserve has to last for what was let in before.
    fn takes_disk_room(&mut self, attach: &Attach) -> bool {
        let is_stored = self.state.by_client.contains_key(&attach.client_id);
        let is_kept = attach.expiry_seconds > 0;
        let bytes = attach.will.as_deref().map_or(0, weight::will_bytes);
        let fits = match self.disk_room_for(bytes) {
            DiskRoom::Enough => {
                self.disk_budget.take(bytes);
                true
            }
            DiskRoom::Short if !is_stored => !is_kept,
            // What it has ends, and its new session is where nothing is written.
            DiskRoom::Short if attach.clean_start && !is_kept => true,
            DiskRoom::Short => {
                let fits = bytes <= self.will_room;
                // A burst for which the budget is too small is over at once, and has no such room of its own.
                if fits && self.disk_room == DiskRoom::Short {
                    self.will_room -= bytes;
                }
                fits
            }
        };
        if !fits {
            self.disk_budget.note_refused();
        }
        fits
    }

    /// Whether a client has a session that does not become much larger with what it brings.
    fn has_session_as_large(&self, attach: &Attach) -> bool {
        let stored = self.state.by_client.get(&attach.client_id);
        stored.is_some_and(|uid| {
            let bytes = |will: Option<&Will>| will.map_or(0, weight::will_bytes);
            let before = bytes(self.will(SessionUid(*uid)));
            bytes(attach.will.as_deref()) <= before.max(SMALL_WILL_BYTES)
        })
    }

    /// The planted bug: the holder's last words are said for it, and it goes on.
    #[cold]
    fn let_in_early(&mut self, client_id: CompactString, fx: &mut impl PartitionEffects) {
        let holder = self
            .lead
            .registry
            .clients
            .get(&client_id)
            .map(|it| it.holder);
        match holder {
            Some(Holder::Home(_, uid)) => {
                let session = self.state.sessions.get(uid.0);
                let epoch = session.expect("its front has it").epoch;
                self.detach(uid, epoch, LastWords::new(DetachCause::TakenOver), fx);
            }
            Some(Holder::Clean(_, epoch)) => self.unclaim(client_id, epoch, Vec::new(), fx),
            Some(Holder::Coming(_) | Holder::Leaving | Holder::Left) | None => {}
        }
    }

    /// Whether the user of a connection may have its client id: what another user has made, a connection or a stored session, is
    /// neither displaced, nor ended, nor taken up. What nobody has logged in for is anybody's.
    fn may_have(&self, attach: &Attach) -> bool {
        let holder = self.lead.registry.clients.get(&attach.client_id);
        let held = holder.and_then(|client| client.owner.as_deref());
        let stored = self.state.by_client.get(&attach.client_id);
        let stored = stored.and_then(|uid| self.state.sessions.get(*uid)?.owner());
        let asks = attach.owner.as_deref().map(owner_name);
        let mine = |owner: Option<&str>| owner.is_none() || owner.map(owner_name) == asks;
        mine(held) && mine(stored)
    }

    /// Whether a session was left by a user that is gone, whose name another one has now (I8).
    fn is_of_a_former_account(&self, uid: SessionUid, attach: &Attach) -> bool {
        let session = self.state.sessions.get(uid.0);
        let left_by = session.and_then(|session| session.owner());
        let owners = left_by.zip(attach.owner.as_deref());
        owners.is_some_and(|(left_by, asks)| are_different_accounts(left_by, asks))
    }

    /// Gives a client id that nobody holds to a connection that has asked for it since a moment: what became due behind that is not held against
    /// it.
    fn take_client(&mut self, attach: &Attach, since: WallMs, fx: &mut impl PartitionEffects) {
        if !self.may_have(attach) {
            refuse(attach.front, ConnectRefusal::NotAuthorized, fx);
            return self.forget_client(&attach.client_id, fx);
        }
        let client_id = &attach.client_id;
        let stored = self.state.by_client.get(client_id).copied();
        let stored = stored.map(SessionUid);
        let ending = stored.is_some_and(|uid| self.is_ending(uid));
        // Its end may be late, at a start: then it waits for what its will goes by, or for the look at whose users are gone.
        let is_over =
            |uid| self.has_expired(uid, since) || self.is_of_a_former_account(uid, attach);
        let is_new = attach.clean_start || stored.is_some_and(is_over);
        // Its will was to go, perhaps before, and had to wait at a start: who comes then does not take it back (v5 [MQTT-3.1.2-8]). What
        // the connection publishes comes behind it (M25).
        let goes_first = |uid: &SessionUid| {
            self.will(*uid).is_some() && (is_new || self.is_will_due(*uid, since))
        };
        if let Some(uid) = stored.filter(|_| !ending).filter(goes_first) {
            let with = match is_new {
                true => WillGoes::WithSession,
                false => WillGoes::Alone,
            };
            // It waits for that with the place of the session that ends.
            let place = is_new && self.hands_place_on(uid, attach);
            self.send_will(uid, with, fx);
            if let Some(client) = self.lead.registry.clients.get_mut(client_id) {
                client.place |= place;
                let attach = Box::new(attach.clone());
                client.waiting = Some(Waiting { attach, since });
            }
            return;
        }
        let place = match stored {
            Some(uid) if !ending && !is_new => return self.resume(attach, uid, fx),
            Some(uid) if !ending => {
                let place = self.hands_place_on(uid, attach);
                self.end_session(uid, fx);
                place
            }
            Some(_) | None => false,
        };
        if attach.expiry_seconds > 0 {
            if !self.has_place(attach, place, fx) {
                refuse(attach.front, ConnectRefusal::UserSessions, fx);
                return self.forget_client(client_id, fx);
            }
            let epoch = self.lead.next_epoch();
            return self.open(attach, epoch, client_id.clone(), fx);
        }
        self.give_waiting_place_back(client_id, fx);
        let epoch = self.lead.next_epoch();
        let front = attach.front;
        let holder = match stored {
            Some(_) => Holder::Coming(front),
            None => Holder::Clean(front, epoch),
        };
        self.hold(client_id, holder, attach.owner.as_deref());
        match stored {
            // v5 [MQTT-3.1.2-4]: nothing of the old session is left when the new one begins, so CONNACK waits (M26).
            Some(_) => {
                let after = After::Claimed {
                    client_id: client_id.clone(),
                    front,
                    epoch,
                };
                // The end may be in an entry that is under way already.
                let number = self.lead.number + u64::from(self.gather.facts() > 0);
                self.lead.after.push_back((number, after));
            }
            None => fx.send_front(front, ToFront::Claimed { epoch }),
        }
    }

    /// Notes who has a client id.
    pub(super) fn hold(&mut self, client_id: &CompactString, holder: Holder, owner: Option<&str>) {
        let clients = &mut self.lead.registry.clients;
        let client = clients
            .entry(client_id.clone())
            .or_insert_with(|| Client::new(holder));
        client.holder = holder;
        client.owner = owner.map(Into::into);
        client.told = false;
    }

    /// Takes a stored session up (v3 [MQTT-3.1.2-4], v5 [MQTT-3.1.2-5]).
    fn resume(&mut self, attach: &Attach, uid: SessionUid, fx: &mut impl PartitionEffects) {
        // One that nobody had logged in for becomes its user's.
        let has_place = self.session_has_place(uid);
        if !self.has_place(attach, has_place, fx) {
            refuse(attach.front, ConnectRefusal::UserSessions, fx);
            return self.forget_client(&attach.client_id, fx);
        }
        self.cancel_due(uid);
        let epoch = self.lead.next_epoch();
        let window = self.window(attach.receive_maximum);
        let session = self
            .state
            .sessions
            .get(uid.0)
            .expect("a stored session is there");
        let floor = session.stream.floor();
        let sent_before = session.sent_limit;
        let sent_limit = session.wanted_sent_limit(floor, window);
        let attach_fact = self.attach_fact(attach, epoch, sent_limit);
        self.write(&Rare::SessionAttached {
            session: uid,
            attach: attach_fact,
        });
        self.own(uid, attach.owner.as_deref());
        let holder = Holder::Coming(attach.front);
        self.hold(&attach.client_id, holder, attach.owner.as_deref());
        if let Some(client) = self.lead.registry.clients.get_mut(&attach.client_id) {
            // Until it is its user's, who is not named by it before.
            client.place |= attach.owner.is_some() && !has_place;
        }
        self.lead.after(After::Attached(Box::new(Attaching {
            front: attach.front,
            client_id: attach.client_id.clone(),
            publisher: attach.publisher,
            session: uid,
            present: true,
            sent_before,
            limits: attach.limits,
            delivery_bytes_max: attach.delivery_bytes_max,
        })));
    }

    /// Opens a session; with a client id where it can be found by it.
    fn open(
        &mut self,
        attach: &Attach,
        epoch: Epoch,
        client_id: CompactString,
        fx: &mut impl PartitionEffects,
    ) {
        let sessions = self.state.sessions.len() + self.lead.registry.reserved as usize;
        let full = sessions >= self.config.limits.sessions_max as usize;
        let Some(uid) = (!full)
            .then(|| self.lead.issued.sessions.next(Owner::Session))
            .flatten()
        else {
            refuse(attach.front, ConnectRefusal::QuotaExceeded, fx);
            self.lead.registry.clients.remove(&client_id);
            if let Some(owner) = attach.owner.as_deref().filter(|_| !client_id.is_empty()) {
                fx.forget_session(owner);
            }
            return;
        };
        let window = self.window(attach.receive_maximum);
        let attach_fact = self.attach_fact(attach, epoch, 2 * u64::from(window));
        self.write(&Rare::SessionOpened {
            session: SessionUid(uid),
            client_id: client_id.as_str().into(),
            attach: attach_fact,
        });
        self.lead.registry.reserved += 1;
        if !client_id.is_empty() {
            self.own(SessionUid(uid), attach.owner.as_deref());
            let holder = Holder::Coming(attach.front);
            self.hold(&client_id, holder, attach.owner.as_deref());
            if let Some(client) = self.lead.registry.clients.get_mut(&client_id) {
                client.place = attach.owner.is_some();
            }
        } else if let (Some(owner), Some(_)) = (&attach.owner, attach.retained_will()) {
            let author = author_of(&attach.client_id, owner);
            let authors = &mut self.lead.registry.will_authors;
            authors.insert(SessionUid(uid), author.into());
        }
        self.lead.after(After::Attached(Box::new(Attaching {
            front: attach.front,
            client_id,
            publisher: attach.publisher,
            session: SessionUid(uid),
            present: false,
            sent_before: 0,
            limits: attach.limits,
            delivery_bytes_max: attach.delivery_bytes_max,
        })));
    }

    /// Writes to whom a session belongs, where that is new.
    fn own(&mut self, uid: SessionUid, owner: Option<&str>) {
        let before = self.state.sessions.get(uid.0);
        let before = before.and_then(|session| session.owner());
        if let Some(owner) = owner
            && before != Some(owner)
        {
            self.write(&Rare::SessionOwned {
                session: uid,
                owner: owner.into(),
            });
        }
    }

    /// Whom a session belongs to, and what it may use, after its client has proved anew who it is. Its will goes by that from now on. A
    /// session without a client id ends with its connection: nobody asks later whose it was.
    pub(crate) fn owned(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        owner: &str,
        limits: SessionLimits,
    ) {
        let Some(session) = self.state.sessions.get_mut(uid.0) else {
            return;
        };
        if session.epoch != epoch || !session.attached {
            return;
        }
        session.lead.limits = limits;
        let is_named = !session.client_id.is_empty();
        self.watch_session(uid.0, limits);
        if is_named {
            self.own(uid, Some(owner));
        } else if let Some(author) = self.lead.registry.will_authors.get_mut(&uid)
            && let Some((client_id, _)) = author_parts(author)
        {
            *author = author_of(client_id, owner).into();
        }
    }

    fn attach_fact(&self, attach: &Attach, epoch: Epoch, sent_limit: u64) -> AttachFact {
        let cap = self.config.limits.session_expiry_seconds_max;
        AttachFact {
            epoch,
            expiry_seconds: attach.expiry_seconds.min(cap),
            receive_maximum: attach.receive_maximum.max(1),
            sent_limit: sent_limit.min(super::PACKET_IDS),
            will: attach.will.clone(),
        }
    }

    fn window(&self, receive_maximum: u16) -> u16 {
        let most = self.config.limits.outbound_window_max;
        receive_maximum.min(most).clamp(1, super::PACKET_IDS as u16)
    }

    /// The entry that attached a session is applied.
    pub(crate) fn attached(&mut self, attaching: &Attaching, fx: &mut impl PartitionEffects) {
        let uid = attaching.session;
        let window = self
            .state
            .sessions
            .get(uid.0)
            .map_or(1, |s| self.window(s.receive_maximum));
        let left = self.state.leaves_of(uid);
        let left: Vec<u64> = left.map(|(_, l)| group_name(&l.share, &l.filter)).collect();
        let session = self
            .state
            .sessions
            .get_mut(uid.0)
            .expect("it was just attached");
        let mut groups = session.groups();
        groups.extend(left);
        let attached = Attached {
            home: HomeRef {
                partition: self.config.id,
                session: uid,
            },
            epoch: session.epoch,
            present: attaching.present,
            next: Seq(session.stream.floor()),
            groups,
        };
        session.will_forgotten = false;
        session.lead.going = Going::Nowhere;
        session.lead.publisher = Some(attaching.publisher);
        session.lead.limits = attaching.limits;
        let live = Live {
            front: attaching.front,
            pushed: session.stream.floor(),
            sent_before: attaching.sent_before,
            under_way: 0,
            window,
            limit_asked: 0,
            taken_at: self.lead.now.tick,
            delivery_bytes_max: attaching.delivery_bytes_max,
            uptake: Uptake::Prompt,
        };
        fx.send_front(attaching.front, ToFront::Attached(attached));
        if let Some(client) = self.lead.registry.clients.get_mut(&attaching.client_id) {
            client.holder = Holder::Home(attaching.front, uid);
            if std::mem::take(&mut client.place)
                && let Some(session) = self.state.sessions.get_mut(uid.0)
            {
                session.lead.has_place = true;
            }
            client.tell_waiting(fx);
        }
        self.start_live(uid, live, fx);
        self.watch_session(uid.0, attaching.limits);
        self.tell_groups(uid, fx);
        self.resume_scans(uid, fx);
    }

    /// Nothing stored is left of a client id; its session is opened elsewhere.
    pub(crate) fn claimed(
        &mut self,
        client_id: &CompactString,
        front: FrontId,
        epoch: Epoch,
        fx: &mut impl PartitionEffects,
    ) {
        fx.send_front(front, ToFront::Claimed { epoch });
        if let Some(client) = self.lead.registry.clients.get_mut(client_id) {
            client.holder = Holder::Clean(front, epoch);
            client.tell_waiting(fx);
        }
    }

    /// The front of a session elsewhere lets go of its client id.
    pub(crate) fn unclaim(
        &mut self,
        client_id: CompactString,
        epoch: Epoch,
        open: Vec<PartitionId>,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(client) = self.lead.registry.clients.get_mut(&client_id) else {
            return;
        };
        if !matches!(client.holder, Holder::Clean(_, held) if held == epoch) {
            return;
        }
        self.let_go(client_id, &open, fx);
    }

    /// The holder of a client id is gone. The next one may have it once what the old one published has settled (M25): with
    /// appends still open, or a will under way, it waits.
    pub(crate) fn let_go(
        &mut self,
        client_id: CompactString,
        open: &[PartitionId],
        fx: &mut impl PartitionEffects,
    ) {
        let Some(client) = self.lead.registry.clients.get_mut(&client_id) else {
            return;
        };
        client.holder = Holder::Left;
        // Without a successor at this moment one may still come before the appends have settled.
        if open.is_empty() {
            return self.pass_on(&client_id, fx);
        }
        client.fenced = true;
        let token = self.lead.next_token();
        self.lead
            .index
            .fences
            .insert(token, Fenced::Attach(client_id));
        fx.fence(token, Fence::Matched);
    }

    /// Gives a client id to the connection that waits for it, unless something of the last holder is still under way.
    pub(crate) fn pass_on(&mut self, client_id: &str, fx: &mut impl PartitionEffects) {
        let Some(client) = self.lead.registry.clients.get_mut(client_id) else {
            return;
        };
        if client.holder != Holder::Left || client.fenced || client.wills > 0 {
            return;
        }
        match client.waiting.take() {
            Some(Waiting { attach, since }) => self.take_client(&attach, since, fx),
            None => self.forget_client(client_id, fx),
        }
    }

    /// Nobody has a client id, or waits for it.
    fn forget_client(&mut self, client_id: &str, fx: &mut impl PartitionEffects) {
        self.give_waiting_place_back(client_id, fx);
        self.lead.registry.clients.remove(client_id);
    }

    fn is_ending(&self, uid: SessionUid) -> bool {
        self.state
            .sessions
            .get(uid.0)
            .is_none_or(|session| session.lead.going == Going::Ended)
    }
}

impl Client {
    fn new(holder: Holder) -> Self {
        Self {
            holder,
            owner: None,
            told: false,
            fenced: false,
            wills: 0,
            place: false,
            waiting: None,
        }
    }

    /// Tells the holder, once, that another connection has come (v3 [MQTT-3.1.4-2], v5 [MQTT-3.1.4-3]).
    fn tell(&mut self, fx: &mut impl PartitionEffects) {
        if self.told {
            return;
        }
        match self.holder {
            Holder::Clean(front, _) | Holder::Home(front, _) => {
                self.told = true;
                fx.send_front(front, ToFront::TakenOver);
            }
            Holder::Coming(_) | Holder::Leaving | Holder::Left => {}
        }
    }

    fn tell_waiting(&mut self, fx: &mut impl PartitionEffects) {
        if self.waiting.is_some() {
            self.tell(fx);
        }
    }
}

fn refuse(front: FrontId, why: ConnectRefusal, fx: &mut impl PartitionEffects) {
    fx.send_front(front, ToFront::ConnectRefused(why));
}
