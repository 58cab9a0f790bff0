//! Settings that change while a shard runs.

use std::rc::Rc;
use std::sync::Arc;

use courser_contract::ShardId;
use courser_engine::Overflow;
use courser_mqtt::front::{Authentication, FrontConfig, OutputPool};

use super::Shard;
use crate::config::Config;
use crate::live::Live;

/// Bytes of free output buffers that a shard keeps.
const OUTPUT_POOL_BYTES: usize = 4 << 20;

/// The settings that a shard has, and those that its fronts have.
pub(crate) struct Tuning {
    live: Arc<Live>,
    version: u64,
    /// For new connections, where nobody logs in.
    current: Rc<FrontConfig>,
    /// For new connections, where they do.
    accounts: Rc<FrontConfig>,
    /// Those before it that connections still have.
    former: Vec<Rc<FrontConfig>>,
    /// What connections counted that are gone, with settings that are gone.
    packets_received: u64,
}

impl Tuning {
    /// Those of the start.
    pub(crate) fn new(live: Arc<Live>, config: &Config, accounts: Rc<dyn Authentication>) -> Self {
        let pool = OutputPool::new(OUTPUT_POOL_BYTES);
        Self {
            live,
            version: 0,
            current: Rc::new(config.front(Rc::clone(&pool))),
            accounts: with_accounts(config, pool, accounts),
            former: Vec::new(),
            packets_received: 0,
        }
    }

    /// Whether there are settings that the shard has not taken. One load.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.live.version() != self.version
    }

    /// For new connections of listeners with this authentication.
    #[inline]
    pub(crate) fn front(&self, authentication: crate::Authentication) -> &Rc<FrontConfig> {
        match authentication {
            crate::Authentication::None => &self.current,
            crate::Authentication::Accounts | crate::Authentication::Tokens => &self.accounts,
        }
    }

    /// Bytes of output above which a connection is not read.
    #[inline]
    pub(crate) fn output_bytes_max(&self) -> usize {
        self.current.output_bytes_max
    }

    /// Packets that fronts have received, whatever settings they had.
    pub(crate) fn packets_received(&self) -> u64 {
        let all = self.former.iter().chain([&self.current, &self.accounts]);
        self.packets_received + all.map(|config| config.packets_received.get()).sum::<u64>()
    }

    /// New connections have the settings of `config` from now on; the buffers stay.
    fn replace(&mut self, config: &Config) {
        let pool = &self.current.output_pool;
        let accounts = Rc::clone(&self.accounts.authentication);
        let accounts = with_accounts(config, Rc::clone(pool), accounts);
        let front = Rc::new(config.front(Rc::clone(pool)));
        self.former
            .push(std::mem::replace(&mut self.accounts, accounts));
        self.former
            .push(std::mem::replace(&mut self.current, front));
        self.former.retain(|former| {
            let in_use = Rc::strong_count(former) > 1;
            if !in_use {
                self.packets_received += former.packets_received.get();
            }
            in_use
        });
    }
}

/// The settings of fronts whose clients log in.
fn with_accounts(
    config: &Config,
    pool: Rc<OutputPool>,
    accounts: Rc<dyn Authentication>,
) -> Rc<FrontConfig> {
    let mut front = config.front(pool);
    front.authentication = accounts;
    Rc::new(front)
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
        let limits = config.limits();
        self.hub.volatile_answers = limits.overflow == Overflow::RefusePublisher;
        self.hub.config = config;
        self.limit_partitions();
        if self.hub.id == ShardId(0) {
            self.retime_reports();
        }
    }
}
