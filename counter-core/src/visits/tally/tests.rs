use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::page_hit::PageHit;
use super::*;
use crate::sketch::Sketch;
use crate::visitor::VisitorKey;
use crate::visits::ledger::Agent;
use crate::visits::store::{Cell, hits};

#[test]
fn a_page_visitor_is_sent_again_after_forgetting_the_page_or_the_total() {
    let names = NameLimits { counters: 10, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let shard = Shards::ONE.iter().next().expect("one");
    let hit = tally.counter("hits").hit().visitor(VisitorKey::random().visitor(&[b"ann"]));
    let at = Timestamp::now();
    let visit = || {
        // The first page hit takes the slow path, i.e. it adds two separate hits.
        for _ in 0..2 {
            tally.page_hit(PageHit { page: Some(tally.counter("/")), ..PageHit::new(hit, Agent::Human) }, at);
        }
        let chunks = tally.take(shard, at, 1000);
        let cells = chunks.iter().flat_map(|chunk| &chunk.cells).filter(|cell| cell.visitors().is_some());
        cells.map(|cell| cell.counter.to_string()).collect::<BTreeSet<_>>()
    };
    let sent = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!([visit(), visit()], [sent(&["hits", "/"]), sent(&[])]);
    for removed in ["hits", "/"] {
        tally.forget(&CounterName::new(removed).expect("a name"));
        assert_eq!([visit(), visit()], [sent(&[removed]), sent(&[])]);
    }
}

#[test]
fn page_hits_and_separate_hits_give_the_same_counts() {
    let names = NameLimits { counters: 10, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = || Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let (one, by_hits, foreign) = (tally(), tally(), tally());
    let shard = Shards::ONE.iter().next().expect("one");
    let (at, key) = (Timestamp::now(), VisitorKey::random());
    for n in 0..3000_u64 {
        let visitor = (n % 4 > 0).then(|| key.visitor(&[&(n % 1400).to_le_bytes()]));
        let weight = NonZeroU32::new(u32::try_from(1 + n % 3).expect("small")).expect("not 0");
        let name = if n % 3 == 0 { "else" } else { "everything" };
        let page = ["/", "/a", "(other)"][usize::try_from(n / 3 % 3).expect("small")];
        let page_hit = |tally: &Tally| {
            let page = match n % 7 {
                0 => None,
                // A counter of a different tally counts as `(other)`.
                1 => Some(foreign.counter("/")),
                _ => Some(tally.counter(page)),
            };
            let hit = tally.counter(name).hit().visitor(visitor).weight(weight);
            PageHit { page, is_view: n % 5 < 2, ..PageHit::new(hit, Agent::Human) }
        };
        one.page_hit(PageHit { others: &[one.counter("method"), one.counter("/")], ..page_hit(&one) }, at);
        let PageHit { hit, page, is_view, .. } = page_hit(&by_hits);
        let others = ["method", "/"].map(|name| by_hits.counter(name).hit().weight(weight));
        let of_page = [hit].into_iter().chain(page.map(|page| hit.on(page)));
        let views = of_page.clone().filter(|_| is_view);
        let views = views.map(|hit| hit.register(None).on(by_hits.views(hit.counter)));
        let hits: Vec<_> = of_page.chain(others).chain(views).collect();
        by_hits.add(&hits, at, Some(Agent::Human));
        assert_eq!(one.ledger(), by_hits.ledger());
        if n % 500 == 499 {
            let sent = |tally: &Tally| {
                let chunks = tally.take(shard, at, 100_000);
                let cells = chunks.iter().flat_map(|chunk| &chunk.cells);
                cells.map(|cell| format!("{cell:?}")).collect::<BTreeSet<_>>()
            };
            let [one, by_hits] = [&one, &by_hits].map(sent);
            assert_eq!(one, by_hits);
        }
    }
    assert!(one.everything.get().is_some() && by_hits.everything.get().is_none());
}

#[test]
fn a_visitor_is_sent_once_and_resent_after_forgetting_the_counter() {
    let names = NameLimits { counters: 10, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let (shard, visitor) = (Shards::ONE.iter().next().expect("one"), VisitorKey::random().visitor(&[b"ann"]));
    let visit = |name: &str| {
        tally.add(&[tally.counter(name).hit().visitor(visitor)], Timestamp::now(), None);
        let chunks = tally.take(shard, Timestamp::now(), 1000);
        chunks.iter().flat_map(|chunk| &chunk.cells).filter_map(Cell::visitors).count()
    };
    let before = Timestamp::now();
    let sent = [visit("a"), visit("a"), visit("b"), visit("b")];
    let name = CounterName::new("a").expect("a name");
    tally.forget(&name);
    let sent_again = [visit("a"), visit("a"), visit("b")];
    // All visitors are new in a new hour.
    let hour = |at: Timestamp| at.as_unix() / 3600;
    if hour(before) == hour(Timestamp::now()) {
        assert_eq!((sent, sent_again), ([1, 0, 1, 0], [1, 0, 0]));
    }
}

#[test]
fn visitors_are_never_sent_before_their_hits() {
    let names = NameLimits { counters: 100, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let (shard, key) = (Shards::ONE.iter().next().expect("one"), VisitorKey::random());
    let everything = tally.counter("hits").hit();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..100_000_u32 {
                let page = Some(tally.counter(&format!("/{}", n / 2000)));
                let hit = everything.visitor(key.visitor(&[&n.to_le_bytes()]));
                tally.page_hit(PageHit { page, ..PageHit::new(hit, Agent::Human) }, Timestamp::now());
            }
        });
        let (mut hits_of_pages, mut visitors) = (0, 0);
        while !writer.is_finished() {
            for chunk in tally.take(shard, Timestamp::now(), 1000) {
                hits_of_pages += hits(&chunk.cells);
                visitors +=
                    chunk.cells.iter().filter_map(Cell::visitors).map(Sketch::len).sum::<usize>() as u64;
            }
            assert!(visitors <= hits_of_pages, "{visitors} visitors of {hits_of_pages} hits");
        }
        assert!(visitors > 0);
    });
}

#[test]
fn visitors_of_a_busy_counter_are_sent_once_and_resent_after_a_loss() {
    let names = NameLimits { counters: 10, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let (shard, key) = (Shards::ONE.iter().next().expect("one"), VisitorKey::random());
    let (counter, name) = (tally.counter("a"), CounterName::new("a").expect("a name"));
    let sent = || {
        let chunks = tally.take(shard, Timestamp::now(), 100_000);
        let mut all = Sketch::new();
        chunks
            .iter()
            .flat_map(|chunk| &chunk.cells)
            .filter_map(Cell::visitors)
            .for_each(|some| all.merge(some));
        all
    };
    let visits = |visitors: std::ops::Range<u32>| {
        let (now, mut raised) = (Timestamp::now(), Sketch::new());
        for visitor in visitors {
            let visitor = key.visitor(&[&visitor.to_le_bytes()]);
            tally.add(&[counter.hit().visitor(visitor)], now, None);
            raised.insert(visitor);
        }
        raised
    };
    let before = Timestamp::now();
    let all = visits(0..20_000);
    let first = sent();
    visits(0..20_000);
    let again = sent();
    let more = visits(20_000..20_500);
    let sent_more = sent();
    tally.forget(&name);
    visits(0..20_000);
    let sent_again = sent();
    tally.lost_by_server(shard, 0);
    let lost = sent();
    tally.forget(&name);
    let new = visits(50_000..90_000);
    // Raised registers must still be sent.
    tally.forget(&name);
    let sent_new = sent();
    let hour = |at: Timestamp| at.as_unix() / 3600;
    if hour(before) == hour(Timestamp::now()) {
        assert_eq!((first, again, &sent_again, &lost), (all.clone(), Sketch::new(), &all, &all));
        assert_eq!(sent_new, new);
        assert!(
            !sent_more.is_empty()
                && more.registers().all(|one| {
                    let rises = all.registers().all(|has| has.index != one.index || has.rank < one.rank);
                    rises == sent_more.registers().any(|sent| sent == one)
                })
        );
    }
}

#[cfg(feature = "spool")]
#[test]
fn visitors_are_never_spooled_before_their_hits() {
    let names = NameLimits { counters: 10, labels: LabelLimits { values: 10, pairs: 10 } };
    let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
    let (shard, key) = (Shards::ONE.iter().next().expect("one"), VisitorKey::random());
    let (now, hit) = (Timestamp::now(), tally.counter("a").hit());
    // Enough visitors to drain the ring, in a past hour, so that they go straight to the pending hits.
    for n in 0..1500_u32 {
        let visitor = key.visitor(&[&n.to_le_bytes()]);
        tally.add(&[hit.visitor(visitor)], now.minus(2 * 3600), None);
    }
    _ = tally.folded(now).entries(Some(shard));
    assert_eq!(tally.backlog.lock().waiting[shard.index()].pending.hits(), 1500);
}
