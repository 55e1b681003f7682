//! The rules that can be added by a form.

use counter_alert::AlertRule;
use counter_core::visits::Measure;
use counter_core::{CounterName, Precision, Precisions, Stats};
use counter_layer::internal::{ERRORS, HITS, STATUSES};

use crate::access::form::Form;
use crate::dashboard::format::units;
use crate::text::digits;
use crate::text::escape::isolated;

/// A form to add a rule. Each kind has some of the fields.
#[derive(Debug)]
pub(crate) struct SubmittedRule(pub(crate) Form);

/// The longest response time, in milliseconds: an hour.
const MAX_MILLISECONDS: u32 = 3_600_000;

/// How long a share or a quantile must be above a bound, in minutes.
const STAY: u32 = 5;

/// The minimum number of requests to evaluate a share or a quantile.
const AT_LEAST: u64 = 20;

/// The longest time without requests, in minutes: a day.
const MAX_MINUTES: u32 = 1440;

impl SubmittedRule {
    /// Returns the counters without which the rule would have no data, or could never fire.
    pub(crate) fn needed(&self) -> Vec<CounterName> {
        match self.0.field("kind") {
            // A status that does not occur has no counter.
            "errors" => STATUSES.map(counter).into(),
            _ => self.counter().into_iter().collect(),
        }
    }

    /// Returns what to say if none of the [needed](Self::needed) counters exists.
    pub(crate) fn uncounted(&self) -> String {
        match self.0.field("kind") {
            "errors" => "This site has not counted any statuses yet.".to_owned(),
            _ if self.field("page").is_empty() => "This site has not counted any requests yet.".to_owned(),
            _ => format!("There is no page named {}.", isolated(self.field("page"))),
        }
    }

    /// Returns the rule, with the finest or the coarsest precision that fits.
    ///
    /// # Errors
    /// Returns a sentence for people if a field is invalid, or if the site does not keep what the rule needs.
    pub(crate) fn rule(&self, stats: &Stats) -> Result<AlertRule, String> {
        match self.0.field("kind") {
            "errors" => self.errors(stats),
            "slow" => self.slow(stats),
            "silent" => self.silent(stats),
            "unusual" => self.unusual(stats),
            _ => Err("Choose one of the forms.".to_owned()),
        }
    }

    fn errors(&self, stats: &Stats) -> Result<AlertRule, String> {
        let tenths = self.field("percent").parse::<f64>().map(|percent| (percent * 10.0).round());
        let percent = tenths.ok().filter(|tenths| (1.0..1000.0).contains(tenths)).map(|tenths| tenths / 10.0);
        let percent = percent.ok_or("The share of errors is a number from 0.1 to 99.9.")?;
        let parts = ERRORS.map(counter);
        let counts = stats.precisions_of(&parts);
        let width = widths(&counts, STAY).last().ok_or(NO_MINUTES)?;
        let rule = AlertRule::share_above(
            format!("errors above {percent} %"),
            parts,
            site(),
            width,
            percent / 100.0,
        );
        Ok(rule.at_least(AT_LEAST).raise_after(buckets(STAY, width)))
    }

    fn slow(&self, stats: &Stats) -> Result<AlertRule, String> {
        let time =
            self.field("milliseconds").parse().ok().filter(|time| (1..=MAX_MILLISECONDS).contains(time));
        let time = time.ok_or_else(|| {
            let most = digits::grouped(MAX_MILLISECONDS.into());
            format!("The response time is a number of milliseconds, from 1 to {most}.")
        })?;
        let counter = self.counter()?;
        let times = stats.grid().distributions.as_ref().ok_or("This site does not record response times.")?;
        let width = widths(times, STAY).last().ok_or(NO_MINUTES)?;
        let name = self.named(&format!("slower than {time} ms"));
        let rule =
            AlertRule::quantile_above(name, counter, width, Measure::Time, 0.9, f64::from(time) / 1000.0);
        Ok(rule.at_least(AT_LEAST).raise_after(buckets(STAY, width)))
    }

    fn silent(&self, stats: &Stats) -> Result<AlertRule, String> {
        let minutes =
            self.field("minutes").parse().ok().filter(|minutes| (1..=MAX_MINUTES).contains(minutes));
        let minutes = minutes.ok_or_else(|| {
            format!("The time is a number of minutes, from 1 to {}.", digits::grouped(MAX_MINUTES.into()))
        })?;
        let counter = self.counter()?;
        let counts = stats.precisions_of([&counter]);
        let width = widths(&counts, minutes).next().ok_or(NO_MINUTES)?;
        let name = self.named(&format!("no requests for {}", units::span(u64::from(minutes) * 60)));
        Ok(AlertRule::silent(name, counter, width).raise_after(buckets(minutes, width)))
    }

    fn unusual(&self, stats: &Stats) -> Result<AlertRule, String> {
        let counter = self.counter()?;
        let counts = stats.precisions_of([&counter]);
        let hour = counts.retention(Precision::HOUR).ok_or("This site does not keep hours.")?.precision;
        let name = |what: &str| self.named(&format!("{what} requests than usual"));
        Ok(match self.0.field("side") {
            "high" => AlertRule::unusually_high(name("more"), counter, hour),
            "low" => AlertRule::unusually_low(name("fewer"), counter, hour),
            _ => AlertRule::unusual(name("more or fewer"), counter, hour),
        })
    }

    /// Returns the value of a field without white space around it.
    fn field(&self, name: &str) -> &str {
        self.0.field(name).trim()
    }

    /// Returns the counter of the page, or that of the site if the field is empty.
    fn counter(&self) -> Result<CounterName, String> {
        match self.field("page") {
            "" => Ok(site()),
            page => page.parse().map_err(|_| format!("{} is not the name of a page.", isolated(page))),
        }
    }

    /// Adds the page to the name of a rule. Of a long page, this is the end, which differs more often than the start.
    fn named(&self, name: &str) -> String {
        let page = self.field("page");
        let whole = if page.is_empty() { name.to_owned() } else { format!("{name}: {page}") };
        if whole.len() <= AlertRule::MAX_NAME_BYTES {
            return whole;
        }
        let room = AlertRule::MAX_NAME_BYTES - format!("{name}: …").len();
        let fits = |start: &usize| page.is_char_boundary(*start);
        let start = (page.len() - room..).find(fits).unwrap_or(page.len());
        format!("{name}: …{}", &page[start..])
    }
}

const NO_MINUTES: &str = "This site does not keep minutes.";

fn site() -> CounterName {
    counter(HITS)
}

fn counter(name: &str) -> CounterName {
    name.parse().expect("a valid name")
}

/// Returns the precisions of at least a minute that divide this time, the finest first.
fn widths(retained: &Precisions, minutes: u32) -> impl Iterator<Item = Precision> {
    let precisions = retained.iter().map(|retention| retention.precision);
    precisions
        .filter(move |width| width.as_seconds() >= 60 && (minutes * 60).is_multiple_of(width.as_seconds()))
}

/// Returns the number of buckets in this time.
fn buckets(minutes: u32, width: Precision) -> u32 {
    minutes * 60 / width.as_seconds()
}

#[cfg(test)]
mod tests {
    use counter_core::visits::Distribution;
    use counter_core::{Counters, MemoryStore};

    use super::*;

    fn rule(form: &str, has_times: bool) -> Result<AlertRule, String> {
        let builder = Counters::builder(MemoryStore::new());
        let builder = if has_times { builder.distributions(Distribution::precisions()) } else { builder };
        SubmittedRule(Form::parse(form.as_bytes())).rule(&builder.build().expect("good settings").stats())
    }

    #[test]
    fn each_form_becomes_a_rule() {
        let (hits, page) = (counter("hits"), counter("/a b"));
        let [minute, hour] = [60, 3600].map(|width| Precision::try_from(width).expect("not 0"));
        let five = Precision::try_from(300).expect("not 0");
        let errors = ERRORS.map(counter);
        for (form, expected) in [
            (
                "kind=errors&percent=2.5",
                AlertRule::share_above("errors above 2.5 %", errors, hits.clone(), five, 0.025).at_least(20),
            ),
            (
                "kind=slow&milliseconds=500&page=",
                AlertRule::quantile_above(
                    "slower than 500 ms",
                    hits.clone(),
                    minute,
                    Measure::Time,
                    0.9,
                    0.5,
                )
                .at_least(20)
                .raise_after(5),
            ),
            (
                "kind=silent&minutes=10&page=%2Fa+b",
                AlertRule::silent("no requests for 10 min: /a b", page.clone(), minute).raise_after(10),
            ),
            (
                "kind=unusual&side=low&page=+%2Fa+b+",
                AlertRule::unusually_low("fewer requests than usual: /a b", page, hour),
            ),
            ("kind=unusual", AlertRule::unusual("more or fewer requests than usual", hits, hour)),
        ] {
            assert_eq!(rule(form, true), Ok(expected), "{form}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence() {
        for (form, reason) in [
            ("", "Choose one of the forms."),
            ("kind=errors&percent=100", "The share of errors is a number from 0.1 to 99.9."),
            ("kind=errors&percent=0.04", "The share of errors is a number from 0.1 to 99.9."),
            ("kind=errors&percent=nan", "The share of errors is a number from 0.1 to 99.9."),
            (
                "kind=slow&milliseconds=-1",
                "The response time is a number of milliseconds, from 1 to 3,600,000.",
            ),
            ("kind=slow&milliseconds=9", "This site does not record response times."),
            ("kind=silent&minutes=1441", "The time is a number of minutes, from 1 to 1,440."),
            ("kind=silent&minutes=4294967296", "The time is a number of minutes, from 1 to 1,440."),
        ] {
            assert_eq!(rule(form, false), Err(reason.to_owned()), "{form}");
        }
        for (page, start) in [("/".repeat(200), "…/"), ("é".repeat(46), "éé"), ("é".repeat(99), "…é")]
        {
            let named = rule(&format!("kind=unusual&page={page}"), true).expect("a rule");
            let (_, shown) = named.name().split_once(": ").expect("the page");
            assert!(
                shown.starts_with(start) && (125..=128).contains(&named.name().len()),
                "{}",
                named.name()
            );
        }
        assert!(
            rule("kind=unusual&page=a%0Ab", false)
                .expect_err("a line break")
                .ends_with("not the name of a page.")
        );
    }
}
