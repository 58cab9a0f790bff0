//! What the fuzz target of the small files of a data folder and of backups does with its input; the kept corpus runs through the same code as
//! a plain test.

use courser_contract::{LogIndex, PartitionId};
use courser_log::{Place, SegmentNumber};
use sha2::{Digest, Sha256};

#[allow(dead_code, reason = "the broker writes them, too")]
#[path = "../../src/node/file.rs"]
mod file;
#[allow(dead_code, unreachable_pub, reason = "the broker has all of it")]
#[path = "../../src/node/layout.rs"]
mod layout;
#[allow(dead_code, reason = "the broker looks into them, too")]
#[path = "../../src/backup/manifest.rs"]
mod manifest;
#[allow(dead_code, unreachable_pub, reason = "the broker obeys them, too")]
#[path = "../../src/repair/orders.rs"]
mod orders;
mod sample;

use file::NodeFile;
use manifest::Manifest;
use orders::{Order, Orders};
use sample::a_manifest;

/// As the broker has it, for the file `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relaxed {
    /// There are none.
    None,
    /// There are as many as durable ones.
    Made,
}

/// The first byte says which file it is, the second whether it is one that the broker wrote and of which the others change bytes, or all of
/// it. Its checksum is made right in any case: what is found behind it must make sense or be refused.
pub fn small_files(input: &[u8]) {
    let [which, how, rest @ ..] = input else {
        return;
    };
    let mut bytes = match which % 3 {
        0 => a_manifest().encode().into_bytes(),
        1 => all_orders().encode().into_bytes(),
        _ => a_node().encode().to_vec(),
    };
    match how % 2 {
        0 => change(&mut bytes, rest),
        _ => bytes = rest.to_vec(),
    }
    match which % 3 {
        0 => read_manifest(&sealed(&bytes, |body| {
            let sum: [u8; 32] = Sha256::digest(body).into();
            manifest::hex(&sum)
        })),
        1 => read_orders(&sealed(&bytes, |body| {
            format!("{:08x}", crc32c::crc32c(body))
        })),
        _ => read_node(bytes),
    }
}

/// Changes single bytes: of each three two say where, one how.
fn change(bytes: &mut [u8], how: &[u8]) {
    for step in how.chunks_exact(3) {
        let at = usize::from(step[0]) << 8 | usize::from(step[1]);
        bytes[at % bytes.len()] ^= step[2];
    }
}

/// Text with its last line, which says a checksum of all before it.
fn sealed(bytes: &[u8], sum: impl Fn(&[u8]) -> String) -> String {
    let text = String::from_utf8_lossy(bytes);
    let body = &text[..text.rfind("end ").unwrap_or(text.len())];
    format!("{body}end {}\n", sum(body.as_bytes()))
}

/// What is read is written as it is read, and names nothing outside of its folders (D15).
fn read_manifest(text: &str) {
    let Ok(read) = Manifest::decode(text) else {
        return;
    };
    assert_eq!(Manifest::decode(&read.encode()).as_ref(), Ok(&read));
    let _bytes = read.bytes();
    for file in &read.files {
        assert!(file.kept <= file.bytes);
        for path in [&file.path, &file.stored] {
            let mut parts = path.split('/');
            assert!(parts.all(|part| !matches!(part, "" | "." | "..")), "{path}");
        }
    }
    assert_eq!(read.numbers().count(), read.files.len());
}

fn all_orders() -> Orders {
    let (id, at) = (PartitionId(3), LogIndex);
    let place = Place {
        segment: SegmentNumber(7),
        offset: 4096,
    };
    let orders = [
        Order::Missing(id, at(10), None),
        Order::Missing(id, at(11), Some(place)),
        Order::Doubt(id, at(12), Some(place)),
        Order::State(id, at(7)),
        Order::Records(id, at(2), at(4)),
        Order::Skip(id, at(13), None),
        Order::Release(id, None),
    ];
    Orders(orders.into_iter().collect())
}

fn read_orders(text: &str) {
    let Some(read) = Orders::decode(text) else {
        return;
    };
    assert_eq!(Orders::decode(&read.encode()).as_ref(), Some(&read));
    for order in &read.0 {
        let id = order.partition();
        let _looked_up = (read.records(id), read.skips(id));
    }
}

fn a_node() -> NodeFile {
    NodeFile {
        identity: [9; 16],
        start: 7,
        word: 1 << 40,
        partitions: 16,
        relaxed: Relaxed::Made,
    }
}

fn read_node(mut bytes: Vec<u8>) {
    if let Some((body, sum)) = bytes.split_last_chunk_mut::<4>() {
        *sum = crc32c::crc32c(body).to_le_bytes();
    }
    if let Ok(read) = NodeFile::decode(&bytes) {
        assert_eq!(NodeFile::decode(&read.encode()), Ok(read));
    }
}
