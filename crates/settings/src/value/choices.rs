//! Settings that are one of a few words.

use super::{Mismatch, Raw, Value};

choice! {
    /// How a shared subscription picks the member that gets a message.
    SharedStrategy {
        /// One after the other.
        RoundRobin = "round_robin",
        /// The same member as long as it is there and has room.
        Sticky = "sticky",
        /// By a hash of the topic: messages of one topic go to one member.
        HashTopic = "hash_topic",
        /// The member with the fewest messages under way.
        LeastOutstanding = "least_outstanding",
    }
}

choice! {
    /// On which shard a connection is served.
    Placement {
        /// Where the kernel puts it.
        Kernel = "kernel",
        /// Where its session is, if that outlives the connection; otherwise where the kernel puts it.
        Home = "home",
        /// As "home"; and what ends with its connection is on the first shard while the process has 32 connections or fewer.
        Gather = "gather",
    }
}

choice! {
    /// Where messages that must be kept are kept.
    Keep {
        /// On the disk: they survive a stop, a crash and a power loss.
        Disk = "disk",
        /// In memory: they end with the process. For tests and for what may be lost.
        Memory = "memory",
    }
}

choice! {
    /// Whether the kernel keeps the process from files that it does not need.
    Landlock {
        /// Where the kernel can.
        Auto = "auto",
        /// The kernel must: there is no start without it.
        Required = "required",
        /// No.
        Off = "off",
    }
}

choice! {
    /// How clients prove who they are.
    Login {
        /// They do not: anyone who reaches the address may connect, and may do everything.
        None = "none",
        /// By an account: password, SCRAM, or a client certificate that names one. What it may do, its roles say.
        Accounts = "accounts",
        /// By a JSON Web Token in the password; see the section `tokens`. What it may do, the roles that the token names say.
        Tokens = "tokens",
    }
}

choice! {
    /// What happens to a message for a session that is full.
    Overflow {
        /// The message that arrives is dropped and counted.
        DropNewest = "drop_newest",
        /// The oldest message that waits and is not under way is dropped and counted.
        DropOldest = "drop_oldest",
        /// The publisher is refused with a quota reason.
        RefusePublisher = "refuse",
    }
}

choice! {
    /// What is promised of a message before it is acknowledged.
    Durability {
        /// Synced: it survives a power loss.
        Durable = "durable",
        /// Written, and synced within 100 ms: it survives the end of the process.
        Relaxed = "relaxed",
        /// Kept in memory only.
        Volatile = "volatile",
    }
}

choice! {
    /// Form of the lines that a server writes about what happens to it.
    LogFormat {
        /// For people: time, level, then `key=value`.
        Text = "text",
        /// For programs: one JSON object a line.
        Json = "json",
    }
}

choice! {
    /// How much a server writes about what happens to it. Each level has those before it.
    LogLevel {
        /// What needs somebody.
        Error = "error",
        /// What may need somebody soon.
        Warn = "warn",
        /// Changes that operators make, and steps of the server.
        Info = "info",
        /// Each client that comes and goes.
        Debug = "debug",
    }
}
