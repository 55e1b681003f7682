//! Tickets for the next flush.

use loom::thread::spawn;

use super::{buckets, take};
use crate::family::shard::{Shard, Shards};
use crate::sync::Arc;
use crate::visits::pending::GroupCommit;
use crate::visits::tally::stripe::Stripe;

/// Either the flush takes the hit, or the ticket is for a later flush.
#[test]
fn a_ticket_waits_for_the_flush_that_takes_the_hit() {
    loom::model(|| {
        let (stripe, commits) = (Arc::new(Stripe::new(1)), Arc::new(GroupCommit::new(Shards::ONE)));
        stripe.switch_to(buckets(1), 1);
        let thread = {
            let (stripe, commits) = (Arc::clone(&stripe), Arc::clone(&commits));
            spawn(move || {
                stripe.add(0, 1);
                commits.ticket([Shard::default()])
            })
        };
        let flush = commits.begin(Shard::default());
        let has_hit = !take(&stripe, || 1).is_empty();
        commits.end(Shard::default(), flush);
        let ticket = thread.join().expect("no panic");
        assert!(has_hit || !ticket.is_done(), "the ticket is for flush {flush}, which does not have the hit");
    });
}
