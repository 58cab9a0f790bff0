//! Between our messages and the library's.

use courser_contract::{LogIndex, Term};
use raft::eraftpb::{ConfState, Entry, Message, MessageType};

use super::{PeerBody, PeerEntry, PeerMessage, VoteKind};
use crate::ids::NodeId;
use crate::snapshot::SnapshotDescriptor;

/// How the library marks an election that the leader wants.
const CAMPAIGN_TRANSFER: &[u8] = b"CampaignTransfer";

/// What the library wants sent, and to whom; none for what members of our groups never say.
pub(crate) fn from_raft(mut message: Message) -> Option<(NodeId, PeerMessage)> {
    let to = NodeId::of_raft_id(message.to)?;
    let term = Term(message.term);
    Some((
        to,
        PeerMessage {
            term,
            body: body_of(&mut message)?,
        },
    ))
}

fn body_of(message: &mut Message) -> Option<PeerBody> {
    let index = LogIndex(message.index);
    let commit = LogIndex(message.commit);
    let log_term = Term(message.log_term);
    let commit_entry = (commit, Term(message.commit_term));
    let body = match message.get_msg_type() {
        MessageType::MsgAppend => PeerBody::Append {
            previous: (index, log_term),
            entries: message.take_entries().into_iter().map(peer_entry).collect(),
            commit,
        },
        MessageType::MsgAppendResponse if message.reject => PeerBody::AppendRejected {
            previous: index,
            hint: (LogIndex(message.reject_hint), log_term),
            commit,
        },
        MessageType::MsgAppendResponse => PeerBody::Appended {
            last: index,
            commit,
        },
        MessageType::MsgRequestVote => PeerBody::Vote {
            kind: if message.context == CAMPAIGN_TRANSFER {
                VoteKind::Transfer
            } else {
                VoteKind::Real
            },
            last: (index, log_term),
            commit: commit_entry,
        },
        MessageType::MsgRequestPreVote => PeerBody::Vote {
            kind: VoteKind::Pre,
            last: (index, log_term),
            commit: commit_entry,
        },
        MessageType::MsgRequestVoteResponse => voted(VoteKind::Real, message.reject, commit_entry),
        MessageType::MsgRequestPreVoteResponse => {
            voted(VoteKind::Pre, message.reject, commit_entry)
        }
        MessageType::MsgHeartbeat => PeerBody::Heartbeat { commit },
        MessageType::MsgHeartbeatResponse => PeerBody::HeartbeatAnswer { commit },
        MessageType::MsgSnapshot => PeerBody::Snapshot(snapshot(message)),
        MessageType::MsgTimeoutNow => PeerBody::TimeoutNow,
        // Messages of a node to itself, and forwarding of proposals and reads to the leader, which nobody asks for here.
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader
        | MessageType::MsgReadIndex
        | MessageType::MsgReadIndexResp => return None,
    };
    Some(body)
}

fn peer_entry(entry: Entry) -> PeerEntry {
    PeerEntry {
        term: Term(entry.term),
        data: entry.data,
    }
}

fn voted(kind: VoteKind, reject: bool, commit: (LogIndex, Term)) -> PeerBody {
    PeerBody::Voted {
        kind,
        granted: !reject,
        commit,
    }
}

fn snapshot(message: &Message) -> SnapshotDescriptor {
    let snapshot = message.get_snapshot();
    let metadata = snapshot.get_metadata();
    SnapshotDescriptor::of_data(
        LogIndex(metadata.index),
        Term(metadata.term),
        &snapshot.data,
    )
    .expect("a snapshot that leaves was made by GroupStorage")
}

/// The library's form of a checked message. `members` is what a snapshot needs to name.
pub(crate) fn to_raft(
    from: NodeId,
    to: NodeId,
    message: PeerMessage,
    members: ConfState,
) -> Message {
    let mut raft = Message {
        from: from.raft_id(),
        to: to.raft_id(),
        term: message.term.0,
        ..Message::default()
    };
    fill(&mut raft, message.body, members);
    raft
}

fn fill(raft: &mut Message, body: PeerBody, members: ConfState) {
    match body {
        PeerBody::Append {
            previous,
            entries,
            commit,
        } => {
            raft.set_msg_type(MessageType::MsgAppend);
            set_entry(raft, previous);
            raft.commit = commit.0;
            let entries: Vec<Entry> = entries
                .into_iter()
                .zip(previous.0.0 + 1..)
                .map(raft_entry)
                .collect();
            raft.set_entries(entries.into());
        }
        PeerBody::Appended { last, commit } => {
            raft.set_msg_type(MessageType::MsgAppendResponse);
            raft.index = last.0;
            raft.commit = commit.0;
        }
        PeerBody::AppendRejected {
            previous,
            hint,
            commit,
        } => {
            raft.set_msg_type(MessageType::MsgAppendResponse);
            raft.reject = true;
            raft.index = previous.0;
            raft.reject_hint = hint.0.0;
            raft.log_term = hint.1.0;
            raft.commit = commit.0;
        }
        PeerBody::Vote { kind, last, commit } => {
            raft.set_msg_type(match kind {
                VoteKind::Pre => MessageType::MsgRequestPreVote,
                VoteKind::Real | VoteKind::Transfer => MessageType::MsgRequestVote,
            });
            if kind == VoteKind::Transfer {
                raft.context = CAMPAIGN_TRANSFER.into();
            }
            set_entry(raft, last);
            set_commit(raft, commit);
        }
        PeerBody::Voted {
            kind,
            granted,
            commit,
        } => {
            raft.set_msg_type(match kind {
                VoteKind::Pre => MessageType::MsgRequestPreVoteResponse,
                VoteKind::Real | VoteKind::Transfer => MessageType::MsgRequestVoteResponse,
            });
            raft.reject = !granted;
            set_commit(raft, commit);
        }
        PeerBody::Heartbeat { commit } => {
            raft.set_msg_type(MessageType::MsgHeartbeat);
            raft.commit = commit.0;
        }
        PeerBody::HeartbeatAnswer { commit } => {
            raft.set_msg_type(MessageType::MsgHeartbeatResponse);
            raft.commit = commit.0;
        }
        PeerBody::Snapshot(snapshot) => fill_snapshot(raft, &snapshot, members),
        PeerBody::TimeoutNow => raft.set_msg_type(MessageType::MsgTimeoutNow),
    }
}

fn fill_snapshot(raft: &mut Message, snapshot: &SnapshotDescriptor, members: ConfState) {
    raft.set_msg_type(MessageType::MsgSnapshot);
    let made = raft.mut_snapshot();
    made.data = snapshot.data();
    let metadata = made.mut_metadata();
    metadata.index = snapshot.index.0;
    metadata.term = snapshot.term.0;
    metadata.set_conf_state(members);
}

fn set_entry(raft: &mut Message, (index, term): (LogIndex, Term)) {
    raft.index = index.0;
    raft.log_term = term.0;
}

fn set_commit(raft: &mut Message, (index, term): (LogIndex, Term)) {
    raft.commit = index.0;
    raft.commit_term = term.0;
}

fn raft_entry((entry, index): (PeerEntry, u64)) -> Entry {
    Entry {
        index,
        term: entry.term.0,
        data: entry.data,
        ..Entry::default()
    }
}
