//! A hint to the memory: what will be touched soon is fetched meanwhile.

/// Bytes that come at once.
const LINE: usize = 64;

/// All lines of it.
#[inline(always)]
pub(crate) fn bring_all<T>(place: Option<&T>) {
    let Some(place) = place else { return };
    let first = std::ptr::from_ref(place).cast::<u8>();
    for line in 0..size_of::<T>().div_ceil(LINE) {
        prefetch(first.wrapping_add(line * LINE));
    }
}

/// Its first line.
#[inline(always)]
pub(crate) fn bring<T>(place: Option<&T>) {
    if let Some(place) = place {
        prefetch(std::ptr::from_ref(place).cast());
    }
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
