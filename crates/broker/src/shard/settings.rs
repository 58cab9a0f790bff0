//! Settings that change while a shard runs.

use std::rc::Rc;
use std::sync::Arc;

use courser_contract::ShardId;
use courser_engine::Overflow;
use courser_mqtt::front::{
    AliasLoad, Authentication, FrontConfig, OutputPool, PacketNumbers, RequestLoad,
};

use super::Shard;
use crate::config::Config;
use crate::live::Live;
use crate::peer::{Entrance, ListenerId};

/// Bytes of free output buffers that a shard keeps.
const OUTPUT_POOL_BYTES: usize = 4 << 20;

/// The settings that a shard has, and those that its fronts have.
pub(crate) struct Tuning {
    live: Arc<Live>,
    version: u64,
    /// Listeners of the process, by their places.
    entrances: Arc<[Arc<Entrance>]>,
    /// For new connections of each.
    fronts: Vec<Rc<FrontConfig>>,
    /// Those before them that connections still have.
    former: Vec<Rc<FrontConfig>>,
    pool: Rc<OutputPool>,
    /// What all of them have asked homes for.
    request_load: RequestLoad,
    /// What topic aliases of all of them take.
    alias_load: AliasLoad,
    /// Where clients log in.
    accounts: Rc<dyn Authentication>,
    output_bytes_max: usize,
    /// What connections counted that are gone, with settings that are gone.
    packets_received: PacketNumbers,
}

impl Tuning {
    /// Those of the start.
    pub(crate) fn new(
        live: Arc<Live>,
        entrances: Arc<[Arc<Entrance>]>,
        config: &Config,
        accounts: Rc<dyn Authentication>,
    ) -> Self {
        let mut tuning = Self {
            live,
            version: 0,
            entrances,
            fronts: Vec::new(),
            former: Vec::new(),
            pool: OutputPool::new(OUTPUT_POOL_BYTES),
            request_load: RequestLoad::default(),
            alias_load: AliasLoad::default(),
            accounts,
            output_bytes_max: 0,
            packets_received: PacketNumbers::default(),
        };
        tuning.replace(config);
        tuning
    }

    /// Whether there are settings that the shard has not taken. One load.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.live.version() != self.version
    }

    /// For new connections of a listener.
    #[inline]
    pub(crate) fn front(&self, id: ListenerId) -> &Rc<FrontConfig> {
        &self.fronts[id.place()]
    }

    /// Bytes of output above which a connection is not read.
    #[inline]
    pub(crate) fn output_bytes_max(&self) -> usize {
        self.output_bytes_max
    }

    /// What topic aliases of all connections of the shard take.
    pub(crate) fn alias_load(&self) -> &AliasLoad {
        &self.alias_load
    }

    /// Free output buffers go.
    pub(crate) fn trim_output(&self) {
        self.pool.trim();
    }

    /// Packets that fronts have received, whatever settings they had.
    pub(crate) fn packets_received(&self) -> PacketNumbers {
        let mut numbers = self.packets_received;
        for config in self.former.iter().chain(&self.fronts) {
            config.packets_received.add_to(&mut numbers);
        }
        numbers
    }

    /// New connections have the settings of `config` from now on; the buffers stay.
    fn replace(&mut self, config: &Config) {
        let fronts = self.entrances.iter().map(|it| self.front_of(it, config));
        let fronts = fronts.collect();
        self.output_bytes_max = config.output_bytes_max();
        self.former
            .extend(std::mem::replace(&mut self.fronts, fronts));
        self.former.retain(|former| {
            let in_use = Rc::strong_count(former) > 1;
            if !in_use {
                former.packets_received.add_to(&mut self.packets_received);
            }
            in_use
        });
    }

    fn front_of(&self, entrance: &Entrance, config: &Config) -> Rc<FrontConfig> {
        let mut front = config.front(entrance.id, Rc::clone(&self.pool));
        front.request_load = self.request_load.clone();
        front.alias_load = self.alias_load.clone();
        match entrance.authentication {
            crate::Authentication::None => {}
            crate::Authentication::Accounts | crate::Authentication::Tokens => {
                front.authentication = Rc::clone(&self.accounts);
            }
        }
        Rc::new(front)
    }
}

impl Shard {
    /// Takes the settings that are new. What a connection was told at its CONNECT stays what it is.
    #[inline]
    pub(super) fn observe_settings(&mut self) {
        if self.tuning.is_new() {
            self.take_settings();
        }
    }

    #[cold]
    fn take_settings(&mut self) {
        // Before the settings: a change in between is taken once more.
        self.tuning.version = self.tuning.live.version();
        let config = self.tuning.live.get();
        self.tuning.replace(&config);
        self.hub.config = config;
        let limits = self.hub.partition_limits();
        self.hub.volatile_answers = limits.overflow() == Overflow::RefusePublisher;
        self.limit_partitions();
        if self.hub.id == ShardId(0) {
            self.retime_reports();
        }
        // The table has the limits of the settings below its own, and is no newer by them.
        if self.hub.access.table.process() != self.hub.config.process_limits() {
            self.take_table();
        }
    }
}
