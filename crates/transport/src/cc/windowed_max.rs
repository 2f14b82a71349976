//! The largest value of a sliding window, kept as the best three of its parts (Linux `lib/win_minmax.c`, after Kathleen Nichols).

/// A value and its time, in the unit of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Timed {
    at: u64,
    value: u64,
}

/// The running maximum. Each choice is newer and not larger than the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowedMax {
    choices: [Timed; 3],
}

impl WindowedMax {
    /// The largest value of the window.
    pub(super) fn get(&self) -> u64 {
        self.choices[0].value
    }

    /// Adds a value at time `at`; values older than `window` no longer count.
    pub(super) fn add(&mut self, window: u64, at: u64, value: u64) {
        let new = Timed { at, value };
        let [best, second, third] = &mut self.choices;
        if value >= best.value || at - third.at > window {
            self.choices = [new; 3];
            return;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        self.expire(window, new);
    }

    /// Replaces choices that are too old, and renews a second and third choice in each quarter of the window.
    fn expire(&mut self, window: u64, new: Timed) {
        let [best, second, third] = &mut self.choices;
        let age = new.at - best.at;
        if age > window {
            (*best, *second, *third) = (*second, *third, new);
            if new.at - best.at > window {
                (*best, *second, *third) = (*second, *third, new);
            }
        } else if second.at == best.at && age > window / 4 {
            (*second, *third) = (new, new);
        } else if third.at == second.at && age > window / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_counts_for_its_window_and_then_the_next() {
        let mut max = WindowedMax::default();
        for (at, value, expected) in [
            (0, 5, 5),
            (1, 9, 9),
            (4, 7, 9),
            (8, 6, 9),
            (11, 3, 9),
            (12, 2, 7),
            (14, 2, 7),
            (15, 1, 6),
            (30, 1, 1),
        ] {
            max.add(10, at, value);
            assert_eq!(max.get(), expected, "at {at}");
        }
    }

    /// The newest of equal values counts, so each lasts a whole window.
    #[test]
    fn an_equal_value_lasts_a_window_from_its_last_time() {
        for (values, last, next) in [
            (&[(0, 9), (3, 9)][..], 9, 13),
            (&[(0, 9), (3, 7), (4, 7)], 7, 14),
            (&[(0, 9), (3, 7), (6, 5), (9, 5)], 5, 19),
        ] {
            let mut max = WindowedMax::default();
            for (at, value) in values {
                max.add(10, *at, *value);
            }
            for at in [11, 13, 14, 17, 19, 20].into_iter().filter(|at| *at <= next) {
                max.add(10, at, 1);
            }
            assert_eq!(max.get(), last, "{values:?}");
            max.add(10, next + 1, 1);
            assert_eq!(max.get(), 1, "{values:?}");
        }
    }

    /// `minmax_running_max` and `minmax_subwin_update`: values replace the choices that they reach, a choice of just a window
    /// still counts, and the second and the third are renewed after more than a quarter and a half of the window.
    #[test]
    fn limits_of_the_window_and_its_parts_belong_to_the_earlier() {
        for (values, expected) in [
            (&[(0, 8), (5, 8), (11, 7), (13, 1), (18, 3)][..], 7),
            (&[(0, 5), (4, 4), (5, 4), (10, 3), (16, 1)], 3),
            (&[(0, 9), (4, 6), (6, 5), (10, 3), (16, 1)], 5),
            (&[(0, 7), (3, 6), (8, 5), (13, 4)], 6),
            (&[(0, 6), (2, 5), (7, 3), (11, 1)], 3),
            (&[(0, 8), (3, 5), (5, 4), (11, 1), (15, 1)], 1),
        ] {
            let mut max = WindowedMax::default();
            for (at, value) in values {
                max.add(10, *at, *value);
            }
            assert_eq!(max.get(), expected, "{values:?}");
        }
    }
}
