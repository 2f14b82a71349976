//! Memory hints: prefetches, and huge pages for large arrays. They affect speed only, never results.

use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Prefetches all cache lines of a value.
#[inline(always)]
pub fn prefetch_all_lines<T>(place: Option<&T>) {
    prefetch_bytes(place, size_of::<T>());
}

/// Prefetches the first `bytes` bytes of a value.
#[inline(always)]
pub fn prefetch_bytes<T>(place: Option<&T>, bytes: usize) {
    let Some(place) = place else { return };
    let first = std::ptr::from_ref(place).cast::<u8>();
    for line in 0..bytes.div_ceil(CACHE_LINE) {
        prefetch_line(first.wrapping_add(line * CACHE_LINE));
    }
}

/// Prefetches the first cache line of a value.
#[inline(always)]
pub fn prefetch_first_line<T>(place: Option<&T>) {
    if let Some(place) = place {
        prefetch_line(std::ptr::from_ref(place).cast());
    }
}

/// Prefetches the element at an index, without a bounds check of its contents. An index beyond the end is harmless.
#[inline(always)]
pub fn prefetch_element<T>(items: &[T], place: usize) {
    prefetch_line(items.as_ptr().wrapping_add(place).cast());
}

/// The element at `place`, or the first element if the index is too large; `None` if the slice is empty.
///
/// Avoids an unpredictable branch where callers alternate between kinds of events.
#[inline(always)]
pub fn element_or_first<T>(items: &[T], place: usize) -> Option<&T> {
    items.get(select_unpredictable(place < items.len(), place, 0))
}

/// Prefetches the first cache line of the element that `element_or_first` returns.
#[inline(always)]
pub fn prefetch_element_or_first<T>(items: &[T], place: usize) {
    prefetch_line(items.as_ptr().wrapping_add(select_unpredictable(place < items.len(), place, 0)).cast());
}

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// An empty vector with capacity `count`. If it spans more than one huge page, it requests huge pages, which reduces TLB misses.
pub fn huge_page_vec<T>(count: usize) -> Vec<T> {
    let mut room = Vec::with_capacity(count);
    request_huge_pages(room.spare_capacity_mut());
    room
}

/// Appends to a vector that [`huge_page_vec`] made, and keeps it on huge pages as it grows.
#[inline(always)]
pub fn push_on_huge_pages<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() {
        grow_huge_page_vec(items);
    }
    items.push(item);
}

#[cold]
#[inline(never)]
fn grow_huge_page_vec<T>(items: &mut Vec<T>) {
    if items.len() * 2 * size_of::<T>() <= HUGE_PAGE {
        items.reserve(1);
        return;
    }
    let mut room = huge_page_vec(items.len() * 2);
    room.append(items);
    *items = room;
}

/// Must run before the memory is first touched, because the system chooses the page size then.
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
            // SAFETY: the range covers whole pages inside our own allocation, and the advice does not change their content. If the system refuses,
            // pages stay small.
            unsafe { libc::madvise(start.wrapping_add(before).cast(), inner, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}

/// Prefetches, for writing, the slot `behind` places after the last element. The core that holds the cache line gives it up in the meantime.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only way to say it; docs/performance.md has the gain")
)]
pub fn prefetch_push_slot<T>(items: &[T], behind: usize) {
    let place = items.as_ptr().wrapping_add(items.len() + behind);
    // In a portable build `_mm_prefetch` would fetch the line for reading only.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no data, whatever the address. Processors without the instruction ignore it.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// A prefetch instruction; does nothing on processors without one.
#[inline(always)]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only way to say it; docs/performance.md has the gain")
)]
fn prefetch_line(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction. It never faults and changes no data, whatever the address.
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
        let mut arena = huge_page_vec(3);
        for number in 0..700_000_u64 {
            push_on_huge_pages(&mut arena, number);
        }
        assert!(arena.iter().copied().eq(0..700_000));
        prefetch_all_lines(arena.first());
        prefetch_first_line(arena.get(700_000));
    }
}
