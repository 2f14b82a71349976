//! A network device of a guest: the back end of vhost-user (QEMU's `docs/interop/vhost-user.rst`) with notifications as messages.
//!
//! Kicks and calls travel on the socket and are answered, so the guest stands still until both sides know of them. That is what makes
//! runs repeatable. No offload is offered: the guest sends frames of MTU size with complete checksums.

use crate::memory::{Announced, GuestMemory};
use crate::ring::Ring;
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

const VIRTIO_F_VERSION_1: u64 = 1 << 32;
const VHOST_USER_F_PROTOCOL_FEATURES: u64 = 1 << 30;
const VIRTIO_RING_F_INDIRECT_DESC: u64 = 1 << 28;
const VIRTIO_RING_F_EVENT_IDX: u64 = 1 << 29;
const VIRTIO_NET_F_MTU: u64 = 1 << 3;
const VIRTIO_NET_F_MAC: u64 = 1 << 5;
const FEATURES: u64 = VIRTIO_F_VERSION_1
    | VIRTIO_RING_F_INDIRECT_DESC
    | VIRTIO_RING_F_EVENT_IDX
    | VHOST_USER_F_PROTOCOL_FEATURES
    | VIRTIO_NET_F_MTU
    | VIRTIO_NET_F_MAC;

const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
const PROTOCOL_BACKEND_REQ: u64 = 1 << 5;
const PROTOCOL_CONFIG: u64 = 1 << 9;
const PROTOCOL_INBAND_NOTIFICATIONS: u64 = 1 << 14;
const PROTOCOL_FEATURES: u64 =
    PROTOCOL_REPLY_ACK | PROTOCOL_BACKEND_REQ | PROTOCOL_CONFIG | PROTOCOL_INBAND_NOTIFICATIONS;

const HEADER: usize = 12;
const MESSAGE_MAX: usize = 4096;
const BACKEND_VRING_CALL: u32 = 4;

/// Positions of the queues.
pub(crate) const RECEIVE: usize = 0;
pub(crate) const TRANSMIT: usize = 1;

/// Requests of the guest (`enum vhost_user_request`).
mod request {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const VRING_KICK: u32 = 35;
}

/// What a message of the guest leads to beyond the state of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// Nothing.
    Nothing,
    /// A queue has new buffers. The guest waits until [`Device::acknowledge_kick`].
    Kick,
    /// A socket for calls is open now, to be watched.
    CallSocket,
    /// The guest has closed the socket.
    Closed,
}

/// A network device.
#[derive(Debug)]
pub(crate) struct Device {
    socket: UnixStream,
    calls: Option<UnixStream>,
    memory: GuestMemory,
    rings: [Ring; 2],
    config: [u8; 12],
    /// The request that waits for an acknowledgement.
    unanswered: Option<u32>,
    /// Calls that the guest has not acknowledged.
    pending_calls: u32,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn double_word(bytes: &[u8]) -> u64 {
    u64::from(word(bytes)) | u64::from(word(&bytes[4..])) << 32
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the network device received {what}"))
}

impl Device {
    pub(crate) fn new(socket: UnixStream, mac: [u8; 6], mtu: u16) -> Device {
        let mut config = [0; 12];
        config[..6].copy_from_slice(&mac);
        config[6] = 1;
        config[8] = 1;
        config[10..].copy_from_slice(&mtu.to_le_bytes());
        Device {
            socket,
            calls: None,
            memory: GuestMemory::default(),
            rings: [Ring::new(), Ring::new()],
            config,
            unanswered: None,
            pending_calls: 0,
        }
    }

    pub(crate) fn call_socket(&self) -> Option<&UnixStream> {
        self.calls.as_ref()
    }

    /// Handles the next message of the guest, which has come.
    pub(crate) fn on_message(&mut self) -> io::Result<Received> {
        let mut message = [0; MESSAGE_MAX];
        let mut files = Vec::new();
        if !self.receive(&mut message[..HEADER], &mut files)? {
            return Ok(Received::Closed);
        }
        let [request, flags, size] = [0, 4, 8].map(|at| word(&message[at..]));
        let size = size as usize;
        if flags & 3 != VERSION || size > MESSAGE_MAX - HEADER {
            return Err(unexpected("a message of another protocol"));
        }
        let body = &mut message[HEADER..HEADER + size];
        if size > 0 && !self.receive(body, &mut files)? {
            return Ok(Received::Closed);
        }
        let mut outcome = Received::Nothing;
        match request {
            request::GET_FEATURES => return self.reply(request, &FEATURES.to_le_bytes()),
            request::GET_PROTOCOL_FEATURES => return self.reply(request, &PROTOCOL_FEATURES.to_le_bytes()),
            request::GET_CONFIG => {
                let (header, payload) =
                    body.split_at_mut_checked(12).ok_or_else(|| unexpected("a short message"))?;
                let offset = word(header) as usize;
                for (at, byte) in payload.iter_mut().enumerate() {
                    *byte = self.config.get(offset + at).copied().unwrap_or(0);
                }
                let body = body.to_vec();
                return self.reply(request, &body);
            }
            request::SET_FEATURES if size >= 8 => {
                let has_event_index = double_word(body) & VIRTIO_RING_F_EVENT_IDX != 0;
                self.rings.iter_mut().for_each(|ring| ring.has_event_index = has_event_index);
            }
            request::SET_OWNER | request::SET_PROTOCOL_FEATURES => {}
            request::SET_MEM_TABLE => self.map_memory(&message[HEADER..HEADER + size], &files)?,
            request::SET_VRING_NUM => self.vring(body)?.0.size = word(&body[4..]) as u16,
            request::SET_VRING_BASE => {
                let index = word(&body[4..]) as u16;
                self.vring(body)?.0.start_at(index);
            }
            request::SET_VRING_ADDR if size >= 40 => {
                let [descriptors, used, available] = [8, 16, 24].map(|at| double_word(&body[at..]));
                let ring = self.vring(body)?.0;
                (ring.descriptors, ring.used, ring.available) = (descriptors, used, available);
            }
            request::SET_VRING_ENABLE => {
                let (ring, memory) = self.vring(body)?;
                ring.enabled = word(&body[4..]) != 0;
                // New receive buffers are found when they are needed.
                if word(body) as usize == RECEIVE {
                    ring.want_kicks(false, memory)?;
                }
            }
            request::SET_BACKEND_REQ_FD => {
                let file = files.pop().ok_or_else(|| unexpected("no socket for calls"))?;
                self.calls = Some(UnixStream::from(file));
                outcome = Received::CallSocket;
            }
            request::VRING_KICK => {
                if flags & NEED_REPLY == 0 {
                    return Err(unexpected("a kick that wants no answer"));
                }
                self.unanswered = Some(request);
                return Ok(Received::Kick);
            }
            other => return Err(unexpected(&format!("request {other}, which it does not know"))),
        }
        if flags & NEED_REPLY != 0 {
            self.reply(request, &0_u64.to_le_bytes())?;
        }
        Ok(outcome)
    }

    fn vring(&mut self, body: &[u8]) -> io::Result<(&mut Ring, &GuestMemory)> {
        let index = if body.len() >= 8 { word(body) as usize } else { usize::MAX };
        let ring = self.rings.get_mut(index).ok_or_else(|| unexpected("a queue that it does not have"))?;
        Ok((ring, &self.memory))
    }

    fn map_memory(&mut self, body: &[u8], files: &[OwnedFd]) -> io::Result<()> {
        let regions = body.get(8..).unwrap_or_default().chunks_exact(32);
        let count = if body.len() >= 4 { word(body) as usize } else { 0 };
        if count != files.len() || count == 0 {
            return Err(unexpected("memory regions without their files"));
        }
        self.memory = GuestMemory::default();
        for (region, file) in regions.take(count).zip(files) {
            let [guest, size, offset] = [0, 8, 24].map(|at| double_word(&region[at..]));
            self.memory.map(Announced { guest, size, offset }, file)?;
        }
        Ok(())
    }

    /// Fills `into` from the socket; false if it is closed. Files that come along are kept.
    fn receive(&mut self, mut into: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<bool> {
        while !into.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(into)];
            let got =
                retry_on_intr(|| recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC))?
                    .bytes;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    files.extend(rights);
                }
            }
            if got == 0 {
                return Ok(false);
            }
            into = &mut into[got..];
        }
        Ok(true)
    }

    fn reply(&mut self, request: u32, body: &[u8]) -> io::Result<Received> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        for field in [request, VERSION | REPLY, body.len() as u32] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.extend_from_slice(body);
        self.socket.write_all(&message)?;
        Ok(Received::Nothing)
    }

    /// Lets the guest go on after a kick.
    pub(crate) fn acknowledge_kick(&mut self) -> io::Result<()> {
        if let Some(request) = self.unanswered.take() {
            self.reply(request, &0_u64.to_le_bytes())?;
        }
        Ok(())
    }

    /// Queues of which the guest does not know what was used, each a bit.
    pub(crate) fn take_calls(&mut self) -> io::Result<u128> {
        let mut queues = 0;
        for queue in [RECEIVE, TRANSMIT] {
            queues |= u128::from(self.rings[queue].take_call(&self.memory)?) << queue;
        }
        Ok(queues)
    }

    /// Calls the guest for each queue of which it does not know what was used. True if there was any.
    pub(crate) fn call_if_due(&mut self) -> io::Result<bool> {
        for queue in [RECEIVE, TRANSMIT] {
            if self.rings[queue].take_call(&self.memory)? {
                let mut message = [0; HEADER + 8];
                message[..4].copy_from_slice(&BACKEND_VRING_CALL.to_le_bytes());
                message[4..8].copy_from_slice(&(VERSION | NEED_REPLY).to_le_bytes());
                message[8..12].copy_from_slice(&8_u32.to_le_bytes());
                message[12..16].copy_from_slice(&(queue as u32).to_le_bytes());
                let calls = self.calls.as_mut().ok_or_else(|| unexpected("no socket for calls"))?;
                calls.write_all(&message)?;
                self.pending_calls += 1;
            }
        }
        Ok(self.pending_calls > 0)
    }

    /// Takes the guest's answer to a call, which has come; false if the guest has closed the socket.
    pub(crate) fn on_call_answer(&mut self) -> io::Result<bool> {
        let mut answer = [0; HEADER + 8];
        let calls = self.calls.as_mut().ok_or_else(|| unexpected("no socket for calls"))?;
        match calls.read_exact(&mut answer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if double_word(&answer[HEADER..]) != 0 {
            return Err(unexpected("a refusal of a call"));
        }
        self.pending_calls = self.pending_calls.saturating_sub(1);
        Ok(true)
    }

    pub(crate) fn has_pending_calls(&self) -> bool {
        self.pending_calls > 0
    }

    /// Takes the next frame that the guest sends.
    pub(crate) fn take_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.rings[TRANSMIT].take_frame(&self.memory)
    }

    /// Whether the guest has frames to send.
    pub(crate) fn has_frames(&self) -> io::Result<bool> {
        self.rings[TRANSMIT].has_available(&self.memory)
    }

    /// Whether the guest is to kick when it has frames to send.
    pub(crate) fn want_kicks(&mut self, wanted: bool) -> io::Result<()> {
        self.rings[TRANSMIT].want_kicks(wanted, &self.memory)
    }

    /// Puts a frame into the guest's next buffer; false if it has none.
    pub(crate) fn put_frame(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.rings[RECEIVE].put_frame(frame, &self.memory)
    }
}
