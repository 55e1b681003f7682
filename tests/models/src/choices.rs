use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bound on the calls per run, to detect a run that never ends.
const MAX_CALLS: usize = 10_000;

/// The choices of a run, shared by all parts of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Choices(Arc<Mutex<Search>>);

#[derive(Debug, Default)]
struct Search {
    /// Choices of this run, and the number of options.
    made: Vec<(usize, usize)>,
    /// Index of the next choice. Earlier choices repeat those of the previous run.
    next: usize,
    /// Number of calls in this run, also with a single option.
    calls: usize,
    /// The reason why this run is not valid. The code under test may catch the panic.
    broken: Option<&'static str>,
    events: Vec<String>,
    /// The most steps that were left when a state was visited, by hash.
    visited: HashMap<u64, usize>,
}

impl Choices {
    fn search(&self) -> MutexGuard<'_, Search> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number below `options`. A later run will return each of the others.
    ///
    /// # Panics
    /// Panics if there are no options, if the number of options has changed since the previous run, or if
    /// the run does not end.
    #[must_use]
    pub fn among(&self, options: usize) -> usize {
        assert!(options > 0, "there must be an option");
        let search = &mut *self.search();
        search.calls += 1;
        if search.calls > MAX_CALLS {
            search.fail("the run does not end");
        }
        if options == 1 {
            return 0;
        }
        if search.next == search.made.len() {
            search.made.push((0, options));
        }
        let (choice, before) = search.made[search.next];
        if before != options {
            search.fail("the scenario depends on something other than its choices");
        }
        search.next += 1;
        choice
    }

    /// Returns one of these options.
    #[must_use]
    pub fn one_of<T: Clone>(&self, options: &[T]) -> T {
        options[self.among(options.len())].clone()
    }

    /// Adds an event to the report of a failed run.
    pub fn note(&self, event: impl Into<String>) {
        self.search().events.push(event.into());
    }

    /// Returns `true` if another sequence of choices has led to this state with at least as many steps left,
    /// so that the rest of the run would show nothing new. The state must decide everything that can follow.
    #[must_use]
    pub fn is_visited(&self, state: impl Hash, left: usize) -> bool {
        let search = &mut *self.search();
        // Otherwise, an earlier run has reached this state with the same choices, and has not explored all
        // that follows.
        let is_new_path = search.next == search.made.len();
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let most = search.visited.entry(hasher.finish()).or_default();
        // 0 means that the state is new.
        let is_visited = *most > left;
        *most = (*most).max(left + 1);
        is_new_path && is_visited
    }

    /// Panics if a call of this run has panicked.
    pub(crate) fn check(&self) {
        let broken = self.search().broken;
        assert_eq!(broken, None);
    }

    /// Prepares the next run. Returns `false` if there is no other sequence of choices.
    pub(crate) fn advance(&self) -> bool {
        let search = &mut *self.search();
        search.made.truncate(search.next);
        (search.next, search.calls) = (0, 0);
        search.events.clear();
        while let Some((choice, options)) = search.made.pop() {
            if choice + 1 < options {
                search.made.push((choice + 1, options));
                return true;
            }
        }
        false
    }

    /// Returns the number of choices in this run.
    pub(crate) fn depth(&self) -> usize {
        self.search().next
    }

    /// Describes the run, even if a part of the scenario has panicked.
    pub(crate) fn describe(&self) -> String {
        let search = self.search();
        let made: Vec<_> =
            search.made.iter().take(search.next).map(|(choice, _)| choice.to_string()).collect();
        format!("choices {}\n    {}", made.join(" "), search.events.join("\n    "))
    }
}

impl Search {
    fn fail(&mut self, reason: &'static str) -> ! {
        self.broken = Some(reason);
        panic!("{reason}");
    }
}
