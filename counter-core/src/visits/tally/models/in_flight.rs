//! The gauge of requests in flight.

use loom::thread::spawn;

use crate::visits::in_flight::InFlightGauge;

#[test]
fn the_maximum_of_requests_in_flight_includes_concurrent_requests() {
    loom::model(|| {
        let gauge = InFlightGauge::default();
        let thread = {
            let gauge = gauge.clone();
            spawn(move || gauge.enter())
        };
        let requests = (gauge.enter(), thread.join().expect("no panic"));
        assert_eq!((gauge.current(), gauge.max()), (2, 2));
        drop(requests);
        assert_eq!(gauge.current(), 0);
    });
}
