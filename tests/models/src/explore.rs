use std::time::Instant;

use tokio::runtime::Builder;

use crate::choices::Choices;

/// Runs a scenario with every sequence of choices, in paused time, and returns the number of runs. If a run
/// panics, this prints the choices and the events of that run.
///
/// # Panics
/// Panics if the scenario does.
pub fn explore(name: &str, scenario: impl AsyncFn(&Choices)) -> u64 {
    let (choices, started, mut runs, mut longest) = (Choices::default(), Instant::now(), 0, 0);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs no resources");
    loop {
        let report = Report { name, choices: &choices, runs };
        runtime.block_on(scenario(&choices));
        choices.check();
        drop(report);
        (runs, longest) = (runs + 1, longest.max(choices.depth()));
        if !choices.advance() {
            eprintln!(
                "{name}: {runs} runs of at most {longest} choices in {:.1} s",
                started.elapsed().as_secs_f64()
            );
            return runs;
        }
    }
}

/// Returns a bound of a scenario: `default`, or more for a long run with `COUNTER_MODEL_DEPTH`.
///
/// # Panics
/// Panics if the variable is not a number.
#[must_use]
pub fn deeper(default: usize) -> usize {
    let more = std::env::var("COUNTER_MODEL_DEPTH").ok();
    default + more.map_or(0, |more| more.parse::<usize>().expect("COUNTER_MODEL_DEPTH is a whole number"))
}

/// Prints a run that panics.
struct Report<'a> {
    name: &'a str,
    choices: &'a Choices,
    runs: u64,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fails after {} runs: {}", self.name, self.runs, self.choices.describe());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn every_sequence_of_choices_runs_once() {
        let seen = RefCell::new(Vec::new());
        let runs = explore("numbers", async |choices| {
            let length = choices.among(4);
            let number: Vec<_> = (0..length).map(|_| choices.among(3)).collect();
            seen.borrow_mut().push(number);
        });
        let seen = seen.into_inner();
        assert_eq!((runs, seen.len()), (1 + 3 + 9 + 27, seen.iter().collect::<BTreeSet<_>>().len()));
    }

    #[test]
    fn a_visited_state_ends_a_run_unless_more_steps_are_left() {
        let walk = |is_pruned: bool| {
            let seen = RefCell::new(BTreeSet::new());
            let runs = explore("walk", async |choices| {
                let mut at = 0_i32;
                for left in (0..10).rev() {
                    at += if choices.among(2) == 0 { -1 } else { 1 };
                    seen.borrow_mut().insert(at);
                    if is_pruned && choices.is_visited(at, left) {
                        return;
                    }
                }
            });
            (runs, seen.into_inner())
        };
        let ((all, seen), (fewer, seen_when_pruned)) = (walk(false), walk(true));
        assert_eq!((all, &seen), (1024, &seen_when_pruned));
        assert!(fewer < 100, "{fewer}");
    }

    #[test]
    fn a_scenario_that_depends_on_something_else_fails() {
        let calls = RefCell::new(1);
        let explored = catch_unwind(AssertUnwindSafe(|| {
            explore("growing", async |choices| {
                *calls.borrow_mut() += 1;
                let _ = choices.among(*calls.borrow());
            })
        }));
        assert!(explored.is_err());
    }

    #[test]
    fn a_run_that_never_ends_fails_even_if_the_panic_is_caught() {
        let explored = catch_unwind(|| {
            explore("endless", async |choices| {
                let endless = AssertUnwindSafe(|| while choices.among(1) == 0 {});
                assert!(catch_unwind(endless).is_err());
            })
        });
        assert!(explored.is_err());
    }
}
