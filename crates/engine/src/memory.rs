//! Hints to the memory, which no result depends on: what will be touched soon is fetched meanwhile, and what is large lies on large
//! pages.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches all cache lines of a value.
#[inline(always)]
pub fn prefetch_all<T>(place: Option<&T>) {
    let Some(place) = place else { return };
    let first = std::ptr::from_ref(place).cast::<u8>();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        prefetch(first.wrapping_add(line * LINE));
    }
}

/// Prefetches the first cache line of a value.
#[inline(always)]
pub fn prefetch_line<T>(place: Option<&T>) {
    if let Some(place) = place {
        prefetch(std::ptr::from_ref(place).cast());
    }
}

/// What lies at a place, whether or not there is anything: nothing is looked at.
#[inline(always)]
pub fn prefetch_at<T>(items: &[T], place: usize) {
    prefetch(items.as_ptr().wrapping_add(place).cast());
}

/// One of them, or the first if there are not so many; nothing if there are none.
///
/// For what is looked at of one kind and then of another, in no order: there is no branch in it that the processor would guess wrong.
#[inline(always)]
pub fn get_or_first<T>(items: &[T], place: usize) -> Option<&T> {
    items.get(select_unpredictable(place < items.len(), place, 0))
}

/// Fetches that one, its first line.
#[inline(always)]
pub fn prefetch_or_first<T>(items: &[T], place: usize) {
    prefetch(items.as_ptr().wrapping_add(select_unpredictable(place < items.len(), place, 0)).cast());
}

/// Bytes of a large page.
const HUGE_PAGE: usize = 2 << 20;

/// An empty vector with room for so many, on large pages where that is more than one: then a look at any of them seldom has to find out
/// first where its page is.
pub fn arena<T>(count: usize) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    request_huge_pages(room.spare_capacity_mut());
    room
}

/// Appends to a vector that [`arena`] made, and keeps it on large pages as it grows.
#[inline(always)]
pub fn append<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() {
        grow(items);
    }
    items.push(item);
}

#[cold]
#[inline(never)]
fn grow<T>(items: &mut Vec<T>) {
    if items.len() * 2 * size_of::<T>() <= HUGE_PAGE {
        items.reserve(1);
        return;
    }
    let mut room = arena(items.len() * 2);
    room.append(items);
    *items = room;
}

/// For what nobody has touched: a page comes to be with the first touch.
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the only way to ask; docs/performance.md has the gain")
)]
fn request_huge_pages<T>(room: &mut [MaybeUninit<T>]) {
    #[cfg(target_os = "linux")]
    {
        let bytes = size_of_val(room);
        let start = room.as_mut_ptr().cast::<u8>();
        let before = start.align_offset(HUGE_PAGE);
        let inner = bytes.saturating_sub(before) / HUGE_PAGE * HUGE_PAGE;
        if inner > 0 {
            // SAFETY: whole pages within memory that is ours, and the advice changes nothing of what they hold. Where the system
            // refuses, pages stay small.
            unsafe { libc::madvise(start.wrapping_add(before).cast(), inner, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}

/// Fetches the place so many behind the last of them, to be written: another core that has it gives it up meanwhile.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only way to say it; docs/performance.md has the gain")
)]
pub fn prefetch_push<T>(items: &[T], behind: usize) {
    let place = items.as_ptr().wrapping_add(items.len() + behind);
    // `_mm_prefetch` would fetch it to be read only, in a build for all processors of this kind.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which neither faults nor changes anything, whatever the address; to processors without it, it is a no-op.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A hint to the processor, and nothing on one without such.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only way to say it; docs/performance.md has the gain")
)]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, and it neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_keeps_what_is_in_it_as_it_grows() {
        let mut arena = arena(3);
        for number in 0..700_000_u64 {
            append(&mut arena, number);
        }
        assert!(arena.iter().copied().eq(0..700_000));
        prefetch_all(arena.first());
        prefetch_line(arena.get(700_000));
    }
}
