//! Rules of recounts.

/// The first rule of a list that does not hold, each with the words for its contradiction.
pub fn first_broken(rules: &[(bool, &str)]) -> Option<String> {
    rules.iter().find(|(holds, _)| !holds).map(|(_, rule)| (*rule).to_owned())
}
