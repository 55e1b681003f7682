//! Bins, from the table of a thread to the folding thread.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use loom::thread::spawn;

use crate::sync::Arc;
use crate::time::{Precision, Precisions, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::tally::bins::{BinKey, BinSlot};
use crate::visits::tally::stripe::Stripe;

/// A second bin does not fit into the table of the model, so it moves the first out of the way.
#[test]
fn each_measurement_is_taken_once_in_its_bucket() {
    let bins = [200, 404].map(|status| BinKey::new((0, None), (Bin::status(status), None)));
    let seconds = Precisions::new([Precision::new(NonZeroU32::MIN)]).expect("a precision");
    let measurements = [(bins[0], 1), (bins[0], 1), (bins[1], 1), (bins[1], 2)];
    loom::model(move || {
        let stripe = Arc::new(Stripe::new(1));
        let thread = {
            let (stripe, seconds) = (Arc::clone(&stripe), seconds.clone());
            spawn(move || {
                for (bins, second) in measurements {
                    let at = Timestamp::from_unix(second);
                    if !stripe.bins.add(bins, at) {
                        stripe.add_bins(bins, at, at, &seconds);
                    }
                }
            })
        };
        let mut taken = Vec::new();
        stripe.take_bins(&mut taken);
        thread.join().expect("no panic");
        stripe.take_bins(&mut taken);
        let mut sums = BTreeMap::new();
        for BinSlot { of, start, count } in taken {
            *sums.entry((of.bins, start.as_unix())).or_insert(0) += count;
        }
        let [first, second] = bins.map(|bins| bins.bins);
        assert_eq!(Vec::from_iter(sums), [((first, 1), 2), ((second, 1), 1), ((second, 2), 1)]);
    });
}
