//! The memory that a guest shares with its devices.
//!
//! All unsafe code for guest memory is here. The guest may change its memory at any time while it runs, so nothing here hands out
//! references into it: values and bytes are copied in and out.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

/// A region of guest memory, mapped here.
#[derive(Debug)]
struct Region {
    guest: u64,
    size: u64,
    /// Where the file is mapped, how much of it, and where in it the region begins.
    base: *mut u8,
    mapped: usize,
    offset: usize,
}

/// All memory that a guest shares with one device.
#[derive(Debug, Default)]
pub(crate) struct GuestMemory {
    regions: Vec<Region>,
}

// SAFETY: a mapping belongs to its `GuestMemory` alone, and is valid on every thread.
#[expect(unsafe_code, reason = "raw pointers into a shared mapping")]
unsafe impl Send for GuestMemory {}

/// A region as the guest announces it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    pub(crate) guest: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
}

fn outside(address: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the guest names address {address:#x}, outside its memory"),
    )
}

impl GuestMemory {
    /// Maps another region.
    #[expect(unsafe_code, reason = "mmap")]
    pub(crate) fn map(&mut self, region: Announced, file: &OwnedFd) -> io::Result<()> {
        let end = region.offset.checked_add(region.size).ok_or_else(|| outside(region.guest))?;
        let length = usize::try_from(end).map_err(io::Error::other)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the system chooses overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
        self.regions.push(Region {
            guest: region.guest,
            size: region.size,
            base: base.cast(),
            mapped: length,
            offset: region.offset as usize,
        });
        Ok(())
    }

    /// Where `len` bytes at a guest address lie here.
    #[expect(unsafe_code, reason = "pointer arithmetic within a mapping")]
    fn locate(&self, address: u64, len: usize) -> io::Result<*mut u8> {
        for region in &self.regions {
            let Some(at) = address.checked_sub(region.guest) else { continue };
            if at.checked_add(len as u64).is_some_and(|end| end <= region.size) {
                // SAFETY: `offset + at + len` is at most `mapped`, so the pointer stays within the mapping.
                return Ok(unsafe { region.base.add(region.offset + at as usize) });
            }
        }
        Err(outside(address))
    }

    /// Copies bytes from the guest to the end of `into`.
    #[expect(unsafe_code, reason = "copy out of a shared mapping")]
    pub(crate) fn append_to(&self, into: &mut Vec<u8>, address: u64, len: usize) -> io::Result<()> {
        let from = self.locate(address, len)?;
        let before = into.len();
        into.resize(before + len, 0);
        // SAFETY: `locate` has checked `len` bytes at `from`; `into` has as many behind `before`; they cannot overlap.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(before), len) };
        Ok(())
    }

    /// Copies an array from the guest.
    #[expect(unsafe_code, reason = "copy out of a shared mapping")]
    pub(crate) fn read<const N: usize>(&self, address: u64) -> io::Result<[u8; N]> {
        let from = self.locate(address, N)?;
        let mut bytes = [0; N];
        // SAFETY: `locate` has checked `N` bytes at `from`.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), N) };
        Ok(bytes)
    }

    /// Copies bytes to the guest.
    #[expect(unsafe_code, reason = "copy into a shared mapping")]
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let to = self.locate(address, bytes.len())?;
        // SAFETY: `locate` has checked as many bytes at `to`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Reads an index that the guest writes last.
    pub(crate) fn load(&self, address: u64) -> io::Result<u16> {
        Ok(self.atomic(address)?.load(Ordering::Acquire))
    }

    /// Writes an index that the guest reads first.
    pub(crate) fn store(&self, address: u64, value: u16) -> io::Result<()> {
        self.atomic(address)?.store(value, Ordering::Release);
        Ok(())
    }

    #[expect(unsafe_code, reason = "atomic access to a shared mapping")]
    fn atomic(&self, address: u64) -> io::Result<&AtomicU16> {
        let at = self.locate(address, 2)?;
        if !(at as usize).is_multiple_of(2) {
            return Err(outside(address));
        }
        // SAFETY: the place is valid as long as `self`, and aligned. The guest too writes it as a whole.
        Ok(unsafe { AtomicU16::from_ptr(at.cast()) })
    }
}

impl Drop for GuestMemory {
    #[expect(unsafe_code, reason = "munmap")]
    fn drop(&mut self) {
        for region in &self.regions {
            // SAFETY: `map` has mapped it; no reference into it outlives `self`. An error leaves it mapped, which harms nobody.
            let _ = unsafe { munmap(region.base.cast(), region.mapped) };
        }
    }
}
