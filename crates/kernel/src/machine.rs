//! A machine: the process of a user-mode kernel, its time and its network devices.
//!
//! The kernel runs with `time-travel=ext`: it asks before its time moves (`include/uapi/linux/um_timetravel.h`). This side is the
//! calendar. The kernel acts only between [`Machine::advance`] and the next time it waits, and each of its messages is answered before it
//! goes on. So the order of everything that it sees depends on nothing but the calls made here.

use crate::device::{Device, Received};
use crate::process::Process;
use crate::shared_time::{self, SharedTime};
use rustix::event::{Timespec, epoll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Operations (`enum um_timetravel_ops`).
mod op {
    pub(super) const ACK: u32 = 0;
    pub(super) const START: u32 = 1;
    pub(super) const REQUEST: u32 = 2;
    pub(super) const WAIT: u32 = 3;
    pub(super) const GET: u32 = 4;
    pub(super) const UPDATE: u32 = 5;
    pub(super) const RUN: u32 = 6;
    pub(super) const FREE_UNTIL: u32 = 7;
    pub(super) const GET_TOD: u32 = 8;
}

/// The kernel's date at its time zero, in nanoseconds since 1970.
const DATE: u64 = 1_600_000_000_000_000_000;
/// The clock of a kernel that shares its time may be so much ahead, in nanoseconds: each time that a program reads it costs 1 ns.
const LEAD_MAX: u64 = 200;
/// A kernel that says nothing for so long, in seconds of real time, hangs.
const SILENCE_MAX: i64 = 120;

const TIME: u64 = 0;
const TIME_LISTENER: u64 = 1;
const NETWORK_LISTENER: u64 = 2;
const EXIT: u64 = 3;
const FIRST_DEVICE: u64 = 16;

/// Names of the sockets in the folder of the process. They stand on the kernel's command line, which feeds its random numbers, so they
/// are the same in every run.
pub(crate) const TIME_SOCKET: &str = "time";
pub(crate) const NETWORK_SOCKET: &str = "net";

/// What went wrong with a machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The operating system refused something.
    #[error("{0}: {1}")]
    System(&'static str, #[source] io::Error),
    /// The kernel ended.
    #[error("the kernel ended; its last lines were:\n{0}")]
    Ended(String),
    /// The kernel refused settings of hosts.
    #[error("the kernel refuses settings:\n{0}")]
    Refused(String),
    /// The kernel broke the protocol.
    #[error("{0}; the last lines of the kernel were:\n{1}")]
    Protocol(String, String),
}

type Result<T> = std::result::Result<T, MachineError>;

/// A running machine.
#[derive(Debug)]
pub struct Machine {
    time: Option<UnixStream>,
    time_listener: UnixListener,
    network_listener: UnixListener,
    poll: OwnedFd,
    devices: Vec<Device>,
    /// What each device is to be: its MAC address.
    expected: Vec<[u8; 6]>,
    mtu: u16,
    /// The time, as the kernel knows it.
    now: u64,
    /// The time at which the kernel wants to run.
    requested: Option<u64>,
    is_waiting: bool,
    /// The kernel may run up to this time without asking, or has run.
    free_until: u64,
    sequence: u32,
    shared: SharedTime,
    /// The kernel takes the time from shared memory, and writes its requests there.
    is_shared: bool,
    /// Devices that the kernel has kicked since this was read, with the time.
    kicks: Vec<(usize, u64)>,
    folder: PathBuf,
    process: Process,
}

impl Machine {
    /// Starts a process with one network device for each MAC address. It has not run until [`Machine::wait`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(
        folder: &Path,
        launch: impl FnOnce(&Path, BorrowedFd<'_>) -> io::Result<Process>,
        devices: &[[u8; 6]],
        mtu: u16,
    ) -> Result<Machine> {
        // Through a descriptor of the folder: a socket's address has 107 bytes, and a folder's path may be longer.
        let here = File::open(folder)
            .map_err(|error| MachineError::System("cannot open the run's folder", error))?;
        let listen = |name| {
            UnixListener::bind(format!("/proc/self/fd/{}/{name}", here.as_raw_fd()))
                .map_err(|error| MachineError::System("cannot open a socket", error))
        };
        let (time_listener, network_listener) = (listen(TIME_SOCKET)?, listen(NETWORK_SOCKET)?);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| MachineError::System("cannot watch sockets", error.into()))?;
        let shared = SharedTime::new().map_err(|error| MachineError::System("cannot share memory", error))?;
        let process = launch(folder, shared.file())
            .map_err(|error| MachineError::System("cannot start the kernel", error))?;
        let machine = Machine {
            time: None,
            time_listener,
            network_listener,
            poll,
            devices: Vec::new(),
            expected: devices.to_vec(),
            mtu,
            now: 0,
            requested: None,
            is_waiting: false,
            free_until: 0,
            sequence: 0,
            shared,
            is_shared: false,
            kicks: Vec::new(),
            folder: folder.to_owned(),
            process,
        };
        machine.watch(&machine.time_listener, TIME_LISTENER)?;
        machine.watch(&machine.network_listener, NETWORK_LISTENER)?;
        machine.watch(machine.process.exit(), EXIT)?;
        Ok(machine)
    }

    fn watch(&self, socket: impl AsFd, token: u64) -> Result<()> {
        epoll::add(&self.poll, socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
            .map_err(|error| MachineError::System("cannot watch a socket", error.into()))
    }

    fn failure(&self, error: &io::Error) -> MachineError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                MachineError::Ended(self.process.last_lines())
            }
            _ => MachineError::Protocol(error.to_string(), self.process.last_lines()),
        }
    }

    /// The time of the kernel in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When the kernel wants to run next; `None` if it sleeps until something happens.
    pub fn requested(&self) -> Option<u64> {
        self.requested.filter(|time| *time < i64::MAX as u64)
    }

    /// Devices that were kicked, and when.
    pub fn take_kicks(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.kicks)
    }

    /// True if the kernel shares its time. It kicks no device then: look for frames after each run.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Calls the kernel, which waits, for devices, and lets it act at `now`. False if it has nothing to do. A kernel that does not share
    /// its time may run on to `free_until` as long as it kicks no device.
    ///
    /// # Errors
    /// If the kernel ends or breaks the protocol.
    pub fn run(&mut self, now: u64, called: &[usize], free_until: u64) -> Result<bool> {
        if self.is_shared {
            return self.run_shared(now, called);
        }
        self.call(now, called.iter().copied())?;
        if self.requested().is_none_or(|next| next > now) {
            return Ok(false);
        }
        self.advance(now, free_until)?;
        Ok(true)
    }

    /// The clock of the kernel may be ahead of `now`, but by no more than it is granted here.
    fn run_shared(&mut self, now: u64, called: &[usize]) -> Result<bool> {
        let end = now + LEAD_MAX;
        let mut queues = 0;
        for number in called {
            let due = self.devices[*number].take_calls();
            queues |= due.map_err(|error| self.failure(&error))? << (2 * number);
        }
        let mut has_run = false;
        if queues != 0 {
            // The shim calls the kernel, and grants it the rest.
            self.shared.set_calls(queues, end).map_err(|error| self.failure(&error))?;
            let at = now.max(self.free_until);
            self.advance(at, at)?;
            self.free_until = end.max(at);
            has_run = true;
        }
        while let Some(next) = self.requested().filter(|next| *next <= end) {
            self.advance(next.max(self.now), end)?;
            has_run = true;
        }
        Ok(has_run)
    }

    /// Lets the kernel run at `now`, and up to `free_until` as long as it does not kick a device. Returns when it waits.
    ///
    /// # Errors
    /// If the kernel ends or breaks the protocol.
    pub fn advance(&mut self, now: u64, free_until: u64) -> Result<()> {
        assert!(self.is_waiting && now >= self.now, "a kernel that waits is given a later time");
        self.set_now(now)?;
        self.requested = None;
        self.is_waiting = false;
        self.free_until = free_until.max(now);
        if self.is_shared {
            self.shared.set_free_until(self.free_until).map_err(|error| self.failure(&error))?;
            let message = self.message(op::RUN, now);
            self.send(&message)?;
            return self.wait();
        }
        let mut messages = Vec::with_capacity(32);
        if free_until > now {
            messages.extend_from_slice(&self.message(op::FREE_UNTIL, free_until));
        }
        messages.extend_from_slice(&self.message(op::RUN, now));
        self.send(&messages)?;
        self.wait()
    }

    /// Serves the kernel until it waits.
    ///
    /// # Errors
    /// If the kernel ends or breaks the protocol.
    pub fn wait(&mut self) -> Result<()> {
        while !self.is_waiting {
            self.serve()?;
        }
        Ok(())
    }

    /// Tells the kernel, which waits, at `now` of frames that it received and of buffers that it may reuse. True if it will run at `now`.
    ///
    /// # Errors
    /// If the kernel ends or breaks the protocol.
    pub fn call(&mut self, now: u64, devices: impl IntoIterator<Item = usize>) -> Result<bool> {
        self.set_now(now)?;
        let mut called = Vec::new();
        for number in devices {
            let due = self.devices[number].call_if_due();
            if due.map_err(|error| self.failure(&error))? {
                called.push(number);
            }
        }
        while called.iter().any(|number| self.devices[*number].has_pending_calls()) {
            self.serve()?;
        }
        self.read_request().map_err(|error| self.failure(&error))?;
        Ok(!called.is_empty())
    }

    fn set_now(&mut self, now: u64) -> Result<()> {
        self.now = now;
        if self.is_shared { self.shared.set_now(now).map_err(|error| self.failure(&error)) } else { Ok(()) }
    }

    /// What the kernel, which waits, has requested in shared memory.
    fn read_request(&mut self) -> io::Result<()> {
        if self.is_shared && self.is_waiting {
            self.requested = self.shared.requested()?;
        }
        Ok(())
    }

    /// Takes the next frame from the transmit ring of a device.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn take_frame(&mut self, device: usize) -> Result<Option<Vec<u8>>> {
        let taken = self.devices[device].take_frame();
        taken.map_err(|error| self.failure(&error))
    }

    /// True if the transmit ring of a device holds a frame.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn has_frames(&self, device: usize) -> Result<bool> {
        self.devices[device].has_frames().map_err(|error| self.failure(&error))
    }

    /// Whether the kernel is to tell when it puts frames into an empty ring of a device.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn want_kicks(&mut self, device: usize, wanted: bool) -> Result<()> {
        let told = self.devices[device].want_kicks(wanted);
        told.map_err(|error| self.failure(&error))
    }

    /// Puts a frame into the receive ring of a device; false if the ring has no room. The kernel learns of it by [`Machine::call`].
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn put_frame(&mut self, device: usize, frame: &[u8]) -> Result<bool> {
        let put = self.devices[device].put_frame(frame);
        put.map_err(|error| self.failure(&error))
    }

    /// All connections are there: the names of the sockets go.
    pub(crate) fn close_listeners(&self) {
        for name in [TIME_SOCKET, NETWORK_SOCKET] {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
    }

    /// The devices that the kernel has opened.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// The last lines of the console.
    pub fn last_lines(&self) -> String {
        self.process.last_lines()
    }

    fn message(&mut self, op: u32, time: u64) -> [u8; 16] {
        self.sequence = self.sequence.wrapping_add(1);
        encode(op, self.sequence, time)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = match &mut self.time {
            Some(socket) => socket.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|error| self.failure(&error))
    }

    /// Waits for messages of the kernel and handles them.
    fn serve(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(8);
        let limit = Timespec { tv_sec: SILENCE_MAX, tv_nsec: 0 };
        let polled = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&limit));
        match polled {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(self.failure(&error.into())),
            Ok(0) => {
                let what = format!("the kernel did not answer for {SILENCE_MAX} s");
                return Err(MachineError::Protocol(what, self.process.last_lines()));
            }
            Ok(_) => {}
        }
        for event in events {
            let token = event.data.u64();
            let handled = match token {
                TIME => self.on_time_message(),
                TIME_LISTENER => self.on_time_connection(),
                NETWORK_LISTENER => self.on_device_connection(),
                EXIT => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => self.on_device(token - FIRST_DEVICE),
            };
            match handled {
                Ok(()) => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
        Ok(())
    }

    fn on_time_connection(&mut self) -> io::Result<()> {
        let (socket, _) = self.time_listener.accept()?;
        self.watch(&socket, TIME).map_err(io::Error::other)?;
        self.time = Some(socket);
        Ok(())
    }

    fn on_device_connection(&mut self) -> io::Result<()> {
        let (socket, _) = self.network_listener.accept()?;
        let number = self.devices.len();
        let mac = *self
            .expected
            .get(number)
            .ok_or_else(|| io::Error::other("the kernel opens a device too many"))?;
        self.watch(&socket, FIRST_DEVICE + 2 * number as u64).map_err(io::Error::other)?;
        self.devices.push(Device::new(socket, mac, self.mtu));
        Ok(())
    }

    fn on_device(&mut self, token: u64) -> io::Result<()> {
        let number = (token / 2) as usize;
        let device = &mut self.devices[number];
        if token % 2 == 1 {
            return if device.on_call_answer()? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        match device.on_message()? {
            Received::Nothing => Ok(()),
            Received::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
            Received::CallSocket => {
                let Some(socket) = self.devices[number].call_socket() else { return Ok(()) };
                self.watch(socket, FIRST_DEVICE + token + 1).map_err(io::Error::other)
            }
            Received::Kick => {
                // A kernel that shares its time kicks once in 65,536 buffers; frames are found without.
                if !self.is_shared {
                    self.kicks.push((number, self.now));
                    self.revoke_free_run()?;
                }
                self.devices[number].acknowledge_kick()
            }
        }
    }

    /// From now on the kernel asks before its time moves. It must have answered before it goes on, or it would run ahead.
    fn revoke_free_run(&mut self) -> io::Result<()> {
        if self.is_waiting || self.free_until <= self.now {
            return Ok(());
        }
        self.free_until = self.now;
        if self.is_shared {
            return self.shared.set_free_until(self.now);
        }
        let message = self.message(op::FREE_UNTIL, self.now);
        let sequence = self.sequence;
        let time = self.time.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        time.write_all(&message)?;
        loop {
            let (op, answered, _) = receive(time)?;
            match op {
                op::ACK if answered == sequence => return Ok(()),
                op::ACK => {}
                _ => return Err(io::Error::other("the kernel asks for time while it waits for a device")),
            }
        }
    }

    fn on_time_message(&mut self) -> io::Result<()> {
        let time = self.time.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let (op, sequence, value) = receive(time)?;
        if !self.is_shared {
            self.is_shared = self.shared.is_used()?;
        }
        let answer = match op {
            op::ACK => return Ok(()),
            op::START => {
                let answer = encode(op::ACK, sequence, u64::from(shared_time::ID));
                return self.shared.answer_start(time, &answer);
            }
            op::REQUEST => {
                self.requested = Some(value);
                0
            }
            op::WAIT => {
                self.is_waiting = true;
                if self.is_shared {
                    return self.read_request();
                }
                0
            }
            op::GET => self.now,
            op::UPDATE => {
                self.now = value;
                0
            }
            op::GET_TOD => DATE,
            other => return Err(io::Error::other(format!("the kernel sends time message {other}"))),
        };
        time.write_all(&encode(op::ACK, sequence, answer))
    }
}

fn encode(op: u32, sequence: u32, time: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&op.to_le_bytes());
    bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
    bytes[8..].copy_from_slice(&time.to_le_bytes());
    bytes
}

fn receive(socket: &mut UnixStream) -> io::Result<(u32, u32, u64)> {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes)?;
    let word = u128::from_le_bytes(bytes);
    Ok((word as u32, (word >> 32) as u32, (word >> 64) as u64))
}
