//! A split virtqueue (virtio 1.2 §2.7) from the side of the device.

use crate::memory::GuestMemory;
use std::io;

const DESC_NEXT: u16 = 1;
const DESC_WRITE: u16 = 2;
const DESC_INDIRECT: u16 = 4;
/// The guest wants no call.
const AVAIL_NO_INTERRUPT: u16 = 1;
/// The device wants no kick.
const USED_NO_NOTIFY: u16 = 1;
/// `struct virtio_net_hdr_v1`.
pub(crate) const NET_HEADER: usize = 12;

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    pub(crate) size: u16,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    pub(crate) enabled: bool,
    /// Both sides say at which index they want to be notified (virtio 1.2 §2.7.7.2, §2.7.10.1).
    pub(crate) has_event_index: bool,
    next_available: u16,
    next_used: u16,
    /// The index up to which the guest was called.
    called_for: u16,
    wants_kicks: bool,
}

/// One buffer of a chain.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: u64,
    len: u32,
    is_for_device: bool,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a virtqueue of the guest is broken: {what}"))
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring { wants_kicks: true, ..Ring::default() }
    }

    /// The guest starts the queue at this index.
    pub(crate) fn start_at(&mut self, index: u16) {
        (self.next_available, self.next_used, self.called_for) = (index, index, index);
    }

    /// Whether the guest has put buffers there that were not taken.
    pub(crate) fn has_available(&self, memory: &GuestMemory) -> io::Result<bool> {
        Ok(self.enabled && memory.load(self.available + 2)? != self.next_available)
    }

    /// Tells the guest whether it is to kick when it adds buffers.
    pub(crate) fn want_kicks(&mut self, wanted: bool, memory: &GuestMemory) -> io::Result<()> {
        if !self.enabled || (self.wants_kicks == wanted && !(wanted && self.has_event_index)) {
            return Ok(());
        }
        self.wants_kicks = wanted;
        if self.has_event_index {
            // The index before the next one has passed: it comes only after all others.
            let event = if wanted { self.next_available } else { self.next_available.wrapping_sub(1) };
            return memory.store(self.used + 4 + 8 * u64::from(self.size), event);
        }
        memory.store(self.used, if wanted { 0 } else { USED_NO_NOTIFY })
    }

    /// Takes the next chain of buffers, and its number.
    fn take(&mut self, memory: &GuestMemory) -> io::Result<Option<(u16, Vec<Buffer>)>> {
        if !self.has_available(memory)? {
            return Ok(None);
        }
        let slot = u64::from(self.next_available % self.size);
        let head = u16::from_le_bytes(memory.read(self.available + 4 + 2 * slot)?);
        self.next_available = self.next_available.wrapping_add(1);
        let mut chain = Vec::with_capacity(4);
        let (mut table, mut entries, mut index) = (self.descriptors, u32::from(self.size), u32::from(head));
        loop {
            if index >= entries || chain.len() > usize::from(self.size) {
                return Err(broken("a descriptor leads out of its table"));
            }
            let bytes: [u8; 16] = memory.read(table + 16 * u64::from(index))?;
            let [address, len] = [&bytes[..8], &bytes[8..12]]
                .map(|field| field.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)));
            let flags = u16::from_le_bytes([bytes[12], bytes[13]]);
            if flags & DESC_INDIRECT != 0 {
                if table != self.descriptors {
                    return Err(broken("a table of descriptors is in another one"));
                }
                (table, entries, index) = (address, len as u32 / 16, 0);
                continue;
            }
            chain.push(Buffer { address, len: len as u32, is_for_device: flags & DESC_WRITE != 0 });
            if flags & DESC_NEXT == 0 {
                return Ok(Some((head, chain)));
            }
            index = u32::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        }
    }

    fn give_back(&mut self, head: u16, written: u32, memory: &GuestMemory) -> io::Result<()> {
        let slot = u64::from(self.next_used % self.size);
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        memory.write(self.used + 4 + 8 * slot, &element)?;
        self.next_used = self.next_used.wrapping_add(1);
        memory.store(self.used + 2, self.next_used)
    }

    /// Takes the next frame that the guest sends.
    pub(crate) fn take_frame(&mut self, memory: &GuestMemory) -> io::Result<Option<Vec<u8>>> {
        let Some((head, chain)) = self.take(memory)? else { return Ok(None) };
        let mut frame = Vec::with_capacity(1536);
        for buffer in chain.iter().filter(|buffer| !buffer.is_for_device) {
            memory.append_to(&mut frame, buffer.address, buffer.len as usize)?;
        }
        if frame.len() < NET_HEADER {
            return Err(broken("a frame is shorter than its header"));
        }
        frame.drain(..NET_HEADER);
        self.give_back(head, 0, memory)?;
        Ok(Some(frame))
    }

    /// Puts a frame into the guest's next buffer; false if it has none that is large enough.
    pub(crate) fn put_frame(&mut self, frame: &[u8], memory: &GuestMemory) -> io::Result<bool> {
        let Some((head, chain)) = self.take(memory)? else { return Ok(false) };
        let mut header = [0; NET_HEADER];
        // One buffer holds the frame.
        header[10] = 1;
        let mut bytes = Vec::with_capacity(NET_HEADER + frame.len());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(frame);
        let mut rest = &bytes[..];
        for buffer in chain.iter().filter(|buffer| buffer.is_for_device) {
            let (now, later) = rest.split_at(rest.len().min(buffer.len as usize));
            memory.write(buffer.address, now)?;
            rest = later;
        }
        if !rest.is_empty() {
            return Err(broken("a receive buffer is smaller than the MTU"));
        }
        self.give_back(head, bytes.len() as u32, memory)?;
        Ok(true)
    }

    /// Whether the guest must be called for what was used since this was asked last.
    pub(crate) fn take_call(&mut self, memory: &GuestMemory) -> io::Result<bool> {
        let (old, new) = (std::mem::replace(&mut self.called_for, self.next_used), self.next_used);
        if old == new {
            return Ok(false);
        }
        if self.has_event_index {
            let event = memory.load(self.available + 4 + 2 * u64::from(self.size))?;
            return Ok(new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old));
        }
        Ok(memory.load(self.available)? & AVAIL_NO_INTERRUPT == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Announced;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const BASE: u64 = 0x10_0000;
    const DESCRIPTORS: u64 = BASE;
    const AVAILABLE: u64 = BASE + 0x1000;
    const USED: u64 = BASE + 0x2000;
    const BUFFERS: u64 = BASE + 0x3000;
    const SIZE: u16 = 4;

    /// The driver's side of a ring of four descriptors.
    struct Driver {
        memory: GuestMemory,
        added: u16,
    }

    impl Driver {
        fn new() -> (Driver, Ring) {
            let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, 0x8000).unwrap();
            let mut memory = GuestMemory::default();
            memory.map(Announced { guest: BASE, size: 0x8000, offset: 0 }, &file).unwrap();
            let ring = Ring {
                size: SIZE,
                descriptors: DESCRIPTORS,
                available: AVAILABLE,
                used: USED,
                enabled: true,
                has_event_index: true,
                ..Ring::new()
            };
            (Driver { memory, added: 0 }, ring)
        }

        fn describe(&self, table: u64, index: u16, address: u64, len: u32, flags: u16, next: u16) {
            let at = table + 16 * u64::from(index);
            self.memory.write(at, &address.to_le_bytes()).unwrap();
            self.memory.write(at + 8, &len.to_le_bytes()).unwrap();
            self.memory.write(at + 12, &flags.to_le_bytes()).unwrap();
            self.memory.write(at + 14, &next.to_le_bytes()).unwrap();
        }

        fn add(&mut self, head: u16) {
            let slot = u64::from(self.added % SIZE);
            self.memory.write(AVAILABLE + 4 + 2 * slot, &head.to_le_bytes()).unwrap();
            self.added += 1;
            self.memory.store(AVAILABLE + 2, self.added).unwrap();
        }

        /// The index of buffers at which the device wants a kick.
        fn kick_at(&self) -> u16 {
            self.memory.load(USED + 4 + 8 * u64::from(SIZE)).unwrap()
        }

        /// The driver wants a call when the device has used this many buffers and one more.
        fn call_at(&self, used: u16) {
            self.memory.store(AVAILABLE + 4 + 2 * u64::from(SIZE), used).unwrap();
        }
    }

    #[test]
    fn a_frame_leaves_its_chain_without_the_header() {
        let (mut driver, mut ring) = Driver::new();
        driver.memory.write(BUFFERS + 0x100, b"frame").unwrap();
        driver.describe(DESCRIPTORS, 2, BUFFERS, NET_HEADER as u32, DESC_NEXT, 3);
        driver.describe(DESCRIPTORS, 3, BUFFERS + 0x100, 5, 0, 0);
        driver.add(2);
        assert_eq!(ring.take_frame(&driver.memory).unwrap().unwrap(), b"frame");
        assert_eq!(ring.take_frame(&driver.memory).unwrap(), None);
        assert_eq!(driver.memory.load(USED + 2).unwrap(), 1);
        assert_eq!(driver.memory.read(USED + 4).unwrap(), [2, 0, 0, 0], "the head comes back");
    }

    #[test]
    fn an_indirect_table_is_followed_once() {
        let (mut driver, mut ring) = Driver::new();
        let table = BUFFERS + 0x400;
        driver.describe(DESCRIPTORS, 0, table, 32, DESC_INDIRECT, 0);
        driver.describe(table, 0, BUFFERS, NET_HEADER as u32, DESC_NEXT, 1);
        driver.describe(table, 1, BUFFERS + 0x100, 7, 0, 0);
        driver.add(0);
        assert_eq!(ring.take_frame(&driver.memory).unwrap().unwrap().len(), 7);
        driver.describe(table, 0, table, 32, DESC_INDIRECT, 0);
        driver.add(0);
        assert!(ring.take_frame(&driver.memory).unwrap_err().to_string().contains("in another one"));
    }

    #[test]
    fn a_received_frame_fills_a_buffer() {
        let (mut driver, mut ring) = Driver::new();
        assert!(!ring.put_frame(b"early", &driver.memory).unwrap(), "no buffer is there");
        driver.describe(DESCRIPTORS, 1, BUFFERS, 64, DESC_WRITE, 0);
        driver.add(1);
        assert!(ring.put_frame(b"frame", &driver.memory).unwrap());
        assert_eq!(driver.memory.read(BUFFERS + NET_HEADER as u64).unwrap(), *b"frame");
        driver.describe(DESCRIPTORS, 1, BUFFERS, 14, DESC_WRITE, 0);
        driver.add(1);
        assert!(ring.put_frame(b"frame", &driver.memory).is_err(), "it is longer than its buffer");
    }

    #[test]
    fn kicks_are_wanted_for_the_next_buffer_or_for_none() {
        let (mut driver, mut ring) = Driver::new();
        driver.describe(DESCRIPTORS, 0, BUFFERS, NET_HEADER as u32, 0, 0);
        driver.add(0);
        ring.take_frame(&driver.memory).unwrap();
        ring.want_kicks(true, &driver.memory).unwrap();
        assert_eq!(driver.kick_at(), 1);
        ring.want_kicks(false, &driver.memory).unwrap();
        assert_eq!(driver.kick_at(), 0, "the driver is past that index");
    }

    #[test]
    fn the_driver_is_called_once_its_index_is_passed() {
        let (mut driver, mut ring) = Driver::new();
        driver.describe(DESCRIPTORS, 0, BUFFERS, NET_HEADER as u32, 0, 0);
        driver.call_at(1);
        driver.add(0);
        ring.take_frame(&driver.memory).unwrap();
        assert!(!ring.take_call(&driver.memory).unwrap(), "one buffer is used, the second is wanted");
        driver.add(0);
        ring.take_frame(&driver.memory).unwrap();
        assert!(ring.take_call(&driver.memory).unwrap());
        assert!(!ring.take_call(&driver.memory).unwrap(), "nothing was used since");
    }

    #[test]
    fn memory_of_the_guest_is_not_left() {
        let (mut driver, mut ring) = Driver::new();
        driver.describe(DESCRIPTORS, 0, BASE + 0x7fff, 64, 0, 0);
        driver.add(0);
        assert!(ring.take_frame(&driver.memory).unwrap_err().to_string().contains("outside its memory"));
        driver.add(SIZE);
        assert!(ring.take_frame(&driver.memory).unwrap_err().to_string().contains("out of its table"));
        driver.describe(DESCRIPTORS, 1, BUFFERS, 1, DESC_NEXT, 1);
        driver.add(1);
        assert!(ring.take_frame(&driver.memory).is_err(), "a chain that leads back to itself ends");
    }
}
