use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use crate::choices::Choices;

/// The faults that can still happen in a run: each kind up to a number of times, and all kinds together up to
/// a bound.
#[derive(Clone, Debug)]
pub struct Faults<F> {
    choices: Choices,
    left: Vec<(F, usize)>,
    bound: usize,
}

impl<F: Copy + Debug + PartialEq> Faults<F> {
    /// Allows these faults, with the number of times, and at most `bound` in total.
    #[must_use]
    pub fn new(choices: &Choices, left: &[(F, usize)], bound: usize) -> Self {
        Self { choices: choices.clone(), left: left.to_vec(), bound }
    }

    /// Chooses whether a fault happens at this place, and which of those that are possible here.
    pub fn choose(&mut self, place: &str, is_possible: impl Fn(F) -> bool) -> Option<F> {
        let possible = self.possible(is_possible);
        let fault = possible[self.choices.among(possible.len() + 1).checked_sub(1)?];
        self.happen(fault, place);
        Some(fault)
    }

    /// Returns the faults that can happen here.
    pub fn possible(&self, is_possible: impl Fn(F) -> bool) -> Vec<F> {
        let left =
            self.left.iter().filter(|(fault, left)| *left > 0 && self.bound > 0 && is_possible(*fault));
        left.map(|(fault, _)| *fault).collect()
    }

    /// Notes that a fault happens.
    ///
    /// # Panics
    /// Panics if the fault can't happen any more.
    pub fn happen(&mut self, fault: F, place: &str) {
        self.choices.note(format!("{fault:?} at {place}"));
        self.bound -= 1;
        let (_, left) = self.left.iter_mut().find(|(of, _)| *of == fault).expect("a possible fault");
        *left -= 1;
    }

    /// Ends the time in which faults happen.
    pub fn end(&mut self) {
        self.bound = 0;
    }
}

impl<F: Hash> Hash for Faults<F> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, self.bound).hash(state);
    }
}
