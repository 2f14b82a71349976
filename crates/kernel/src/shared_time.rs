//! Time in memory that the kernel and its calendar share (`struct um_timetravel_schedshm`), for kernels that have it (6.12): most
//! messages about time are then not needed.

use crate::memory::{Announced, GuestMemory};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

const VERSION: u32 = 2;
/// The number of the kernel among those who share the time. It counts as the one that runs even while it waits, so it always writes its
/// requests here.
pub(crate) const ID: u16 = 1;
const CLIENTS_MAX: u16 = 2;
const CAN_SHARE: u32 = 1;
const REQUESTS_RUN: u32 = 1;

const LENGTH_AT: u64 = 4;
const FREE_UNTIL_AT: u64 = 8;
const NOW_AT: u64 = 16;
const RUNNING_AT: u64 = 24;
const CLIENTS_MAX_AT: u64 = 26;
/// Ours, in a part of the header that the kernel does not use: calls of devices for `shim.c` (a bit for each queue), and what the
/// kernel is granted after them.
const CALLS_AT: u64 = 1024;
const THEN_FREE_UNTIL_AT: u64 = 1040;
const CLIENT_AT: u64 = 4096 + 128 * ID as u64;
const SIZE: u64 = 4096 + 128 * CLIENTS_MAX as u64;

/// The memory and its file.
#[derive(Debug)]
pub(crate) struct SharedTime {
    file: OwnedFd,
    memory: GuestMemory,
}

impl SharedTime {
    pub(crate) fn new() -> io::Result<SharedTime> {
        let file = memfd_create("pauseframe-time", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, SIZE)?;
        let mut memory = GuestMemory::default();
        memory.map(Announced { guest: 0, size: SIZE, offset: 0 }, &file)?;
        memory.write(0, &VERSION.to_le_bytes())?;
        memory.write(LENGTH_AT, &(SIZE as u32).to_le_bytes())?;
        memory.write(RUNNING_AT, &ID.to_le_bytes())?;
        memory.write(CLIENTS_MAX_AT, &CLIENTS_MAX.to_le_bytes())?;
        Ok(SharedTime { file, memory })
    }

    /// Sends the answer to START with the file, and one for a log, which the kernel closes.
    pub(crate) fn answer_start(&self, socket: &UnixStream, message: &[u8]) -> io::Result<()> {
        let files = [self.file.as_fd(), self.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("no room for two files in a message"));
        }
        let sent = sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::empty())?;
        if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Whether the kernel has taken the offer, which it does before its first message after START.
    pub(crate) fn is_used(&self) -> io::Result<bool> {
        Ok(u32::from_le_bytes(self.memory.read(CLIENT_AT)?) & CAN_SHARE != 0)
    }

    pub(crate) fn set_now(&self, now: u64) -> io::Result<()> {
        self.memory.write(NOW_AT, &now.to_le_bytes())
    }

    pub(crate) fn set_free_until(&self, time: u64) -> io::Result<()> {
        self.memory.write(FREE_UNTIL_AT, &time.to_le_bytes())
    }

    /// The file, for the process of the kernel.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Before it runs, the kernel is called for these queues, each a bit of a number; then it may run to `free_until`.
    pub(crate) fn set_calls(&self, queues: u128, free_until: u64) -> io::Result<()> {
        self.memory.write(THEN_FREE_UNTIL_AT, &free_until.to_le_bytes())?;
        self.memory.write(CALLS_AT, &queues.to_le_bytes())
    }

    /// When the kernel, which waits, wants to run.
    pub(crate) fn requested(&self) -> io::Result<Option<u64>> {
        let wants_to_run = u32::from_le_bytes(self.memory.read(CLIENT_AT + 4)?) & REQUESTS_RUN != 0;
        let time = u64::from_le_bytes(self.memory.read(CLIENT_AT + 8)?);
        Ok(wants_to_run.then_some(time))
    }
}
