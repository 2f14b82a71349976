//! Counts with their nouns, for messages.

/// A count with its noun, such as "1 host", "2 switches" or "0 priorities".
///
/// Knows the plurals in -s, -es and -ies; the last word of `noun` takes the ending.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count: u64 = count.try_into().unwrap_or(u64::MAX);
    if count == 1 {
        return format!("1 {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular_and_all_other_counts_are_plural() {
        assert_eq!(counted(1_u32, "host"), "1 host");
        assert_eq!(counted(0_usize, "VLAN"), "0 VLANs");
        assert_eq!(counted(2_u64, "switch"), "2 switches");
        assert_eq!(counted(3_u16, "lossless priority"), "3 lossless priorities");
        assert_eq!(counted(2_usize, "way"), "2 ways");
    }
}
