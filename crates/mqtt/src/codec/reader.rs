//! A cursor over a packet's body.

use super::error::DecodeErrorKind;
use super::text::MqttStr;
use super::types::PacketId;
use super::varint::{self, Varint};

/// Takes fields from the front; every read checks the bounds first.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// All that was there but `left` is read now.
    #[inline]
    fn advance(&mut self, left: &'a [u8]) {
        #[cfg(test)]
        work::add();
        self.rest = left;
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeErrorKind> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeErrorKind::Truncated)?;
        self.advance(rest);
        Ok(taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeErrorKind> {
        let (&byte, rest) = self.rest.split_first().ok_or(DecodeErrorKind::Truncated)?;
        self.advance(rest);
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeErrorKind> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeErrorKind::Truncated)?;
        self.advance(rest);
        Ok(u16::from_be_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeErrorKind> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeErrorKind::Truncated)?;
        self.advance(rest);
        Ok(u32::from_be_bytes(*bytes))
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u32, DecodeErrorKind> {
        match varint::read(self.rest)? {
            Varint::Value(value, taken) => {
                self.bytes(taken)?;
                Ok(value)
            }
            Varint::Incomplete => Err(DecodeErrorKind::Truncated),
        }
    }

    /// Binary data: two bytes of length, then the bytes.
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], DecodeErrorKind> {
        let len = self.u16()?;
        self.bytes(usize::from(len))
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<MqttStr<'a>, DecodeErrorKind> {
        MqttStr::check(self.binary()?)
    }

    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, DecodeErrorKind> {
        PacketId::new(self.u16()?).ok_or(DecodeErrorKind::PacketIdZero)
    }

    /// Refuses bytes after the last field.
    pub(crate) fn finish(&self) -> Result<(), DecodeErrorKind> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeErrorKind::TrailingBytes)
        }
    }
}

/// How much is read, so that a test can say what a packet costs.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static READS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        READS.set(READS.get() + 1);
    }

    /// Fields that this thread has read so far, one that is read again counted again.
    pub(crate) fn fields_read() -> u64 {
        READS.get()
    }
}
