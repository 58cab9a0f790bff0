//! Sockets: bytes with delay, in order, cut into pieces, and connections that break at any byte.

use courser_contract::{CloseCause, ShardId};

use super::{Event, World};
use crate::client::Command;
use crate::rng::Rng;
use crate::shell::Inbound;

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) client: usize,
    shard: ShardId,
    life: u32,
    up: u64,
    down: u64,
    /// The client still listens.
    client_side: bool,
    server_side: bool,
    /// The broker has let it in.
    attached: bool,
}

/// All connections that ever were.
#[derive(Debug)]
pub(crate) struct Net {
    delay_max: u64,
    conns: Vec<Conn>,
}

impl Net {
    pub(super) const fn new(delay_max: u64) -> Self {
        Self {
            delay_max,
            conns: Vec::new(),
        }
    }

    fn up(&mut self, conn: u32, now: u64, rng: &mut Rng) -> u64 {
        let delay = rng.between(0, self.delay_max);
        let conn = &mut self.conns[conn as usize];
        conn.up = conn.up.max(now + delay);
        conn.up
    }

    fn down(&mut self, conn: u32, now: u64, rng: &mut Rng) -> u64 {
        let delay = rng.between(0, self.delay_max);
        let conn = &mut self.conns[conn as usize];
        conn.down = conn.down.max(now + delay);
        conn.down
    }
}

/// Cuts bytes into one to three pieces.
fn pieces(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while bytes.len() > 1 && pieces.len() < 2 && rng.chance(30) {
        let at = rng.between(1, bytes.len() as u64 - 1) as usize;
        let rest = bytes.split_off(at);
        pieces.push(std::mem::replace(&mut bytes, rest));
    }
    pieces.push(bytes);
    pieces
}

impl World {
    fn send_to_shard(&mut self, conn: u32, at: u64, inbound: Inbound) {
        let Conn { shard, life, .. } = self.net.conns[conn as usize];
        self.at(at, Event::Inbound(life, shard, inbound));
    }

    /// Does what a client asks of its sockets.
    pub(super) fn obey(&mut self, client: usize, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Open(conn) => self.open(client, conn),
                Command::Send(conn, bytes) => self.send(conn, bytes),
                Command::Break(conn) => self.break_off(conn),
                Command::Finish(conn) => {
                    let at = self.net.up(conn, self.now, &mut self.rng);
                    self.send_to_shard(conn, at, Inbound::Lost(conn));
                    self.net.conns[conn as usize].client_side = false;
                }
                Command::Stall(conn, stalled) => {
                    let at = self.now;
                    self.send_to_shard(conn, at, Inbound::Stall(conn, stalled));
                }
            }
        }
    }

    /// The number of the next connection.
    pub(super) const fn next_conn(&self) -> u32 {
        self.net.conns.len() as u32
    }

    /// Whether new connections are taken (M39).
    pub(super) const fn accepts(&self) -> bool {
        self.running && self.serving
    }

    fn open(&mut self, client: usize, conn: u32) {
        assert_eq!(conn, self.next_conn(), "connections are numbered in order");
        let shard = ShardId(self.rng.below(u64::from(self.plan.shards)) as u16);
        self.net.conns.push(Conn {
            client,
            shard,
            life: self.life,
            up: self.now,
            down: self.now,
            client_side: true,
            server_side: true,
            attached: false,
        });
        self.counts.connections += 1;
        let at = self.net.up(conn, self.now, &mut self.rng);
        self.send_to_shard(conn, at, Inbound::Accept(conn));
    }

    fn send(&mut self, conn: u32, bytes: Vec<u8>) {
        for piece in pieces(bytes, &mut self.rng) {
            let at = self.net.up(conn, self.now, &mut self.rng);
            self.send_to_shard(conn, at, Inbound::Bytes(conn, piece));
        }
    }

    /// The client is gone; what it had sent arrives up to some byte.
    fn break_off(&mut self, conn: u32) {
        let last = self.net.conns[conn as usize].up.max(self.now);
        let at = self.rng.between(self.now, last);
        self.send_to_shard(conn, at, Inbound::Lost(conn));
        self.net.conns[conn as usize].client_side = false;
    }

    pub(super) fn send_to_client(&mut self, conn: u32, bytes: Vec<u8>) {
        if !self.net.conns[conn as usize].client_side {
            return;
        }
        for piece in pieces(bytes, &mut self.rng) {
            let at = self.net.down(conn, self.now, &mut self.rng);
            self.at(at, Event::ToClient(conn, Some(piece)));
        }
    }

    /// A front has closed.
    pub(super) fn closed(&mut self, conn: u32, cause: CloseCause) {
        let net = &mut self.net.conns[conn as usize];
        net.server_side = false;
        let client = net.client;
        if !net.attached {
            self.note_overtaken(conn);
        }
        self.oracle.closed(conn, client, cause, self.now);
        let home = self.places.session(self.clients[client].id());
        if self.leaderless.contains(&home) {
            self.oracle.unheard(self.now, client);
        }
        let at = self.net.down(conn, self.now, &mut self.rng);
        self.at(at, Event::ToClient(conn, None));
    }

    pub(super) fn attached(&mut self, conn: u32) {
        let net = &mut self.net.conns[conn as usize];
        net.attached = true;
        let client = net.client;
        self.note_overtaken(conn);
        self.oracle.attached(conn, client, self.now);
    }

    /// A CONNECT whose end is known now may have come to the session behind one of the same client that was sent later. Nothing orders
    /// two connections: neither the network nor, from one shard to another, the broker.
    fn note_overtaken(&mut self, conn: u32) {
        let client = self.net.conns[conn as usize].client;
        let mut later = self.net.conns[conn as usize + 1..].iter();
        if later.any(|it| it.client == client && it.attached) {
            self.clients[client].was_overtaken(&mut self.oracle);
        }
    }

    /// The process died: every socket breaks.
    pub(super) fn break_all(&mut self) {
        for conn in 0..self.net.conns.len() as u32 {
            let net = &mut self.net.conns[conn as usize];
            if std::mem::take(&mut net.server_side) {
                let at = self.net.down(conn, self.now, &mut self.rng);
                self.at(at, Event::ToClient(conn, None));
            }
        }
    }

    /// Nothing that is under way comes to any client any more.
    pub(super) fn forget_connections(&mut self) {
        for net in &mut self.net.conns {
            net.client_side = false;
            net.server_side = false;
        }
    }

    pub(super) fn arrive_at_client(&mut self, conn: u32, bytes: Option<Vec<u8>>) {
        let Conn {
            client,
            client_side,
            ..
        } = self.net.conns[conn as usize];
        if !client_side {
            return;
        }
        if bytes.is_none() {
            self.net.conns[conn as usize].client_side = false;
        }
        self.with_client(client, |it, ctx| match bytes {
            Some(bytes) => it.receive(conn, &bytes, ctx),
            None => it.hung_up(conn, ctx),
        });
    }

    pub(super) fn deed(&mut self, client: usize) {
        let pause = if self.healing {
            200
        } else {
            self.plan.pause_ms
        };
        let next = self.now + self.rng.between(pause / 2 + 1, pause * 3 / 2 + 1);
        self.at(next, Event::Deed(client));
        self.with_client(client, |it, ctx| it.deed(ctx));
    }

    /// Calls a client with what it may use.
    pub(super) fn with_client(
        &mut self,
        client: usize,
        act: impl FnOnce(&mut crate::client::Client, &mut crate::client::Ctx<'_>),
    ) {
        let mut commands = Vec::new();
        let accepts = self.accepts();
        let next_conn = self.next_conn();
        let mut ctx = crate::client::Ctx {
            now: self.now,
            rng: &mut self.rng,
            oracle: &mut self.oracle,
            trace: &mut self.trace,
            counts: &mut self.counts,
            plan: &self.plan,
            accepts,
            healing: self.healing,
            last_fault: self.last_fault,
            next_conn,
            commands: &mut commands,
        };
        act(&mut self.clients[client], &mut ctx);
        self.obey(client, commands);
    }
}
