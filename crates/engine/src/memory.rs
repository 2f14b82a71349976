//! Memory hints: prefetches, and huge pages for large allocations. They affect speed only, never results.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::select_unpredictable;

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

/// Allocations from this size on request huge pages, in bytes. Smaller ones come and go in tables, and clearing whole
/// huge pages for them costs more than it saves.
const LARGE: usize = 16 * HUGE_PAGE;

/// The system's allocator; large allocations request huge pages, which reduces TLB misses.
#[derive(Debug)]
pub struct HugePageAllocator;

#[expect(unsafe_code, reason = "an allocator; docs/performance.md has the gain")]
// SAFETY: every call goes to the system's allocator with the arguments as they are, and its result is returned. The
// advice does not change the content of a page.
unsafe impl GlobalAlloc for HugePageAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let start = unsafe { System.alloc(layout) };
        request_huge_pages(start, layout.size());
        start
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let start = unsafe { System.alloc_zeroed(layout) };
        request_huge_pages(start, layout.size());
        start
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        let start = unsafe { System.realloc(old, layout, bytes) };
        request_huge_pages(start, bytes);
        start
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(start, layout) };
    }
}

/// Does nothing for small allocations, for a null pointer, and on other systems than Linux.
#[inline]
fn request_huge_pages(start: *mut u8, bytes: usize) {
    if bytes >= LARGE && !start.is_null() {
        advise_huge_pages(start, bytes);
    }
}

/// Takes effect where the memory was not touched yet, because the system chooses the page size then.
#[cold]
#[inline(never)]
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the only way to ask; docs/performance.md has the gain")
)]
fn advise_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let before = start.align_offset(HUGE_PAGE);
        let inner = bytes.saturating_sub(before) / HUGE_PAGE * HUGE_PAGE;
        if inner > 0 {
            // SAFETY: the range covers whole pages inside one allocation, and the advice does not change their content.
            // If the system refuses, pages stay small.
            unsafe { libc::madvise(start.wrapping_add(before).cast(), inner, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
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
    #[expect(unsafe_code, reason = "calls an allocator")]
    fn a_large_allocation_keeps_its_content_as_it_grows_and_shrinks() {
        let layout = |bytes| Layout::from_size_align(bytes, 64).unwrap();
        let (small, large) = (LARGE / 2, LARGE + HUGE_PAGE + 64);
        // SAFETY: each block is used within its size, and freed once with its layout.
        unsafe {
            let mut block = HugePageAllocator.alloc_zeroed(layout(small));
            assert_eq!(*block.add(small - 1), 0);
            *block.add(small - 1) = 7;
            block = HugePageAllocator.realloc(block, layout(small), large);
            assert_eq!((*block.add(small - 1), block.align_offset(64)), (7, 0));
            *block.add(large - 1) = 9;
            block = HugePageAllocator.realloc(block, layout(large), small);
            assert_eq!(*block.add(small - 1), 7);
            HugePageAllocator.dealloc(block, layout(small));
            let block = HugePageAllocator.alloc(layout(large));
            *block.add(large - 1) = 5;
            HugePageAllocator.dealloc(block, layout(large));
        }
    }

    #[test]
    fn prefetches_beyond_the_end_are_harmless() {
        let numbers = [1_u64, 2];
        prefetch_all_lines(numbers.first());
        prefetch_first_line(numbers.get(700_000));
        prefetch_element(&numbers, 700_000);
    }
}
