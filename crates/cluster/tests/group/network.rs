//! Three nodes, the links between them, and what must hold of all of them together.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use courser_cluster::{Consensus, NodeId, PeerBody, PeerMessage, Role, SnapshotResult, VoteKind};
use courser_contract::{LogIndex, Term};

use crate::node::Node;

pub(crate) const MEMBERS: u16 = 3;

/// What was ever seen anywhere (I6).
#[derive(Default)]
struct Seen {
    committed: BTreeMap<LogIndex, (Term, Bytes)>,
    leaders: BTreeMap<Term, NodeId>,
    votes: BTreeMap<(NodeId, Term), NodeId>,
    digests: BTreeMap<LogIndex, u64>,
}

/// See the module.
pub(crate) struct Cluster {
    nodes: Vec<Option<Node>>,
    /// The disks of nodes that are down.
    down: BTreeMap<u16, Node>,
    links: BTreeMap<(u16, u16), VecDeque<PeerMessage>>,
    cut: Vec<(u16, u16)>,
    seen: Seen,
    pub(crate) snapshots: u64,
    pub(crate) fetches: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64, cache_bytes: usize) -> Self {
        Self {
            nodes: (0..MEMBERS)
                .map(|node| Some(Node::member(node, MEMBERS, seed, cache_bytes)))
                .collect(),
            down: BTreeMap::new(),
            links: BTreeMap::new(),
            cut: Vec::new(),
            seen: Seen::default(),
            snapshots: 0,
            fetches: 0,
        }
    }

    pub(crate) fn node(&mut self, node: u16) -> &mut Node {
        self.nodes[usize::from(node)]
            .as_mut()
            .expect("this node is up")
    }

    pub(crate) fn is_up(&self, node: u16) -> bool {
        self.nodes[usize::from(node)].is_some()
    }

    /// Polls a node and looks at what it asks for.
    pub(crate) fn poll(&mut self, id: u16) {
        let committed = self.node(id).poll();
        for (index, term, entry) in committed {
            self.see_committed(id, index, term, entry);
        }
        let node = self.nodes[usize::from(id)].as_mut().expect("it was polled");
        let told = node.told;
        let digest = *self
            .seen
            .digests
            .entry(LogIndex(told.last))
            .or_insert(told.digest);
        assert_eq!(
            digest, told.digest,
            "node {id} has another state at {}",
            told.last
        );
        let roles = std::mem::take(&mut node.asked.roles);
        let sent = std::mem::take(&mut node.asked.sent);
        for role in roles {
            if let Role::Leader(term) = role {
                self.see_leader(NodeId(id), term);
            }
        }
        for (to, message) in sent {
            self.see_sent(NodeId(id), to, &message);
            self.links.entry((id, to.0)).or_default().push_back(message);
            if self.cut.contains(&(id, to.0)) {
                self.drop_link(id, to.0);
            }
        }
    }

    /// All that is on a link is lost; the sender's shell hears of a snapshot that did not arrive.
    fn drop_link(&mut self, from: u16, to: u16) {
        while self.waiting(from, to) > 0 {
            self.lose(from, to);
        }
    }

    fn see_leader(&mut self, node: NodeId, term: Term) {
        let leader = *self.seen.leaders.entry(term).or_insert(node);
        assert_eq!(leader, node, "two leaders of term {}", term.0);
    }

    fn see_sent(&mut self, from: NodeId, to: NodeId, message: &PeerMessage) {
        match message.body {
            PeerBody::Append { .. } | PeerBody::Heartbeat { .. } | PeerBody::Snapshot(_) => {
                self.see_leader(from, message.term);
            }
            PeerBody::Voted {
                kind: VoteKind::Real,
                granted: true,
                ..
            } => {
                let vote = *self.seen.votes.entry((from, message.term)).or_insert(to);
                assert_eq!(
                    vote, to,
                    "node {} votes twice in term {}",
                    from.0, message.term.0
                );
            }
            PeerBody::Appended { last, .. } => self.see_claim(from, last),
            PeerBody::Voted { .. }
            | PeerBody::AppendRejected { .. }
            | PeerBody::Vote { .. }
            | PeerBody::HeartbeatAnswer { .. }
            | PeerBody::TimeoutNow => {}
        }
    }

    /// A follower that says "I have it" has it on its disk.
    fn see_claim(&mut self, from: NodeId, last: LogIndex) {
        let durable = &self.node(from.0).durable;
        let has = durable.snapshot.0.max(
            durable
                .entries
                .keys()
                .last()
                .copied()
                .unwrap_or(LogIndex(0)),
        );
        assert!(
            last <= has,
            "node {} claims {} and has {}",
            from.0,
            last.0,
            has.0
        );
    }

    /// M9 and I6: what one node commits lies on the disks of a majority, its own among them, and is the same everywhere.
    fn see_committed(&mut self, id: u16, index: LogIndex, term: Term, entry: Bytes) {
        assert!(
            self.node(id).durable.holds(index, term),
            "node {id} applies {} before its disk has it",
            index.0
        );
        let all = self.nodes.iter().flatten().chain(self.down.values());
        let holding = all.filter(|node| node.durable.holds(index, term)).count();
        assert!(
            holding * 2 > usize::from(MEMBERS),
            "{} is committed on {holding} disks",
            index.0
        );
        let known = self
            .seen
            .committed
            .entry(index)
            .or_insert((term, entry.clone()));
        assert_eq!(
            *known,
            (term, entry),
            "two entries are committed at {}",
            index.0
        );
    }

    /// Delivers the message at a place of a link. A snapshot's checkpoint is fetched before it is stepped in (M43).
    pub(crate) fn deliver(&mut self, from: u16, to: u16, place: usize) -> bool {
        let Some(message) = self
            .links
            .get_mut(&(from, to))
            .and_then(|link| link.remove(place))
        else {
            return false;
        };
        if !self.is_up(to) {
            self.links
                .entry((from, to))
                .or_default()
                .push_front(message);
            self.lose(from, to);
            return true;
        }
        if let PeerBody::Snapshot(descriptor) = &message.body {
            self.snapshots += 1;
            let source = self.nodes[usize::from(from)]
                .as_ref()
                .or(self.down.get(&from));
            let found = source
                .and_then(|node| {
                    node.checkpoints
                        .iter()
                        .find(|it| it.descriptor == *descriptor)
                })
                .cloned();
            let checkpoint = found.expect("a checkpoint that was offered stays");
            self.node(to).checkpoints.push(checkpoint);
            if self.is_up(from) {
                self.node(from)
                    .group
                    .snapshot_sent(NodeId(to), SnapshotResult::Done);
                self.poll(from);
            }
        }
        let taken = self.node(to).group.step(NodeId(from), message);
        taken.expect("members say nothing wrong");
        self.poll(to);
        true
    }

    /// A message is lost.
    pub(crate) fn lose(&mut self, from: u16, to: u16) {
        let lost = self
            .links
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front);
        let snapshot = lost.is_some_and(|message| matches!(message.body, PeerBody::Snapshot(_)));
        if snapshot && self.is_up(from) {
            let group = &mut self.node(from).group;
            group.snapshot_sent(NodeId(to), SnapshotResult::Failed);
        }
    }

    pub(crate) fn waiting(&self, from: u16, to: u16) -> usize {
        self.links.get(&(from, to)).map_or(0, VecDeque::len)
    }

    /// What a node has sent and nobody has taken.
    pub(crate) fn under_way(&self, from: u16) -> impl Iterator<Item = &PeerBody> {
        let links = self.links.iter().filter(move |(link, _)| link.0 == from);
        links.flat_map(|(_, link)| link.iter().map(|message| &message.body))
    }

    pub(crate) fn persist(&mut self, id: u16) -> bool {
        let node = self.node(id);
        let fetched = node.fetch();
        let work = node.persist() | fetched;
        self.fetches += u64::from(fetched);
        if work {
            self.poll(id);
        }
        work
    }

    pub(crate) fn tick(&mut self, id: u16) {
        self.node(id).group.tick();
        self.poll(id);
    }

    pub(crate) fn propose(&mut self, id: u16, entry: Bytes) -> bool {
        let taken = self.node(id).group.propose(entry).is_ok();
        self.poll(id);
        taken
    }

    /// The node dies; the first `survive` batches on their way to its disk are there when it starts again.
    pub(crate) fn kill(&mut self, id: u16, survive: usize) {
        let mut node = self.nodes[usize::from(id)]
            .take()
            .expect("only what lives can die");
        node.restart(survive);
        self.down.insert(id, node);
        for peer in 0..MEMBERS {
            self.drop_link(id, peer);
            self.drop_link(peer, id);
        }
    }

    pub(crate) fn start(&mut self, id: u16) {
        let node = self.down.remove(&id).expect("only what is down can start");
        self.nodes[usize::from(id)] = Some(node);
        self.poll(id);
    }

    /// Nothing goes from one to the other, and what is under way is lost.
    pub(crate) fn cut(&mut self, from: u16, to: u16) {
        self.cut.push((from, to));
        self.drop_link(from, to);
    }

    pub(crate) fn isolate(&mut self, id: u16) {
        for peer in (0..MEMBERS).filter(|&peer| peer != id) {
            self.cut(id, peer);
            self.cut(peer, id);
        }
    }

    pub(crate) fn mend(&mut self) {
        self.cut.clear();
    }

    /// Everything under way arrives: messages in order, writes, reads.
    pub(crate) fn run(&mut self) {
        loop {
            let mut work = false;
            for from in 0..MEMBERS {
                for to in 0..MEMBERS {
                    work |= self.deliver(from, to, 0);
                }
                if self.is_up(from) {
                    work |= self.persist(from);
                }
            }
            if !work {
                return;
            }
        }
    }

    /// Ticks everybody until somebody leads all that are up and connected, for at most this many ticks.
    pub(crate) fn elect(&mut self, ticks: usize) -> u16 {
        for _ in 0..ticks {
            self.run();
            if let Some(leader) = self.leader() {
                return leader;
            }
            for id in 0..MEMBERS {
                if self.is_up(id) {
                    self.tick(id);
                }
            }
        }
        panic!("no leader after {ticks} ticks");
    }

    /// The node that leads the newest term and has said so.
    pub(crate) fn leader(&self) -> Option<u16> {
        let nodes = self.nodes.iter().flatten();
        let newest = nodes.map(|node| node.group.term()).max()?;
        let leads = |node: &Node| node.role == Role::Leader(newest);
        let place = self
            .nodes
            .iter()
            .position(|node| node.as_ref().is_some_and(leads))?;
        Some(place as u16)
    }

    /// All nodes are up and have applied the same.
    pub(crate) fn agree(&self) -> bool {
        let mut told = self
            .nodes
            .iter()
            .map(|node| node.as_ref().map(|node| (node.told, node.group.applied())));
        let first = told.next().flatten();
        first.is_some() && told.all(|one| one == first)
    }

    /// Where everybody is, for the text of a failure.
    pub(crate) fn places(&self) -> Vec<String> {
        let place = |node: &Node| {
            let group = &node.group;
            format!(
                "term {} role {:?} applied {} commit {} last {} checkpoint {} told {} waits {}",
                group.term().0,
                node.role,
                group.applied().0,
                group.commit().0,
                group.last().0,
                node.durable.snapshot.0.0,
                node.told.last,
                node.asked.writes.len(),
            )
        };
        self.nodes.iter().flatten().map(place).collect()
    }

    /// The entries that were ever committed.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &Bytes> {
        self.seen.committed.values().map(|(_, entry)| entry)
    }
}
