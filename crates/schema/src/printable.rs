//! Text that a message quotes from a file. Terminals interpret control characters, so a file could repaint the screen
//! or hide a line; messages escape them. This happens where messages leave the core, once for all readers.

/// Escapes control characters and characters that reorder or hide text (Unicode TR 36, section 2.5) as
/// `\u{1b}`. Line breaks and tabs stay.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let kept = matches!(c, '\n' | '\t');
        if !kept && (c.is_control() || is_invisible(c)) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_escaped() {
        assert_eq!(
            printable("a\u{1b}[2Jb\u{9b}c\r\u{7f}\u{202e}d\n\te"),
            "a\\u{1b}[2Jb\\u{9b}c\\u{d}\\u{7f}\\u{202e}d\n\te"
        );
        assert_eq!(printable("héllo, 10 \u{b5}s"), "héllo, 10 \u{b5}s");
    }
}
