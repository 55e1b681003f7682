use super::*;

const WIDTH: u64 = 86_400;
const MIDNIGHT: Timestamp = Timestamp::from_unix(18_356 * WIDTH);

fn salts() -> Arc<Salts> {
    let salts = Salting::new(DAY, None, None).rotating;
    _ = salts.handle();
    salts
}

fn ann(salts: &Salts, at: Timestamp) -> VisitorId {
    salts.key(at).0.visitor(&[b"ann"])
}

#[test]
fn a_salt_from_a_key_never_changes_and_is_not_shared() {
    let key = VisitorKey::new([7; 16]);
    let salt = Salt::from(key).0;
    for at in [Timestamp::MIN, MIDNIGHT, Timestamp::MAX] {
        assert_eq!(ann(&salt, at), key.visitor(&[b"ann"]));
        assert!(salt.due(at).is_none());
    }
}

/// Simulates a store that returns the salt offered first.
fn share(salts: &Salts, now: Timestamp, retained: &mut Vec<(Bucket, [u8; 16])>) {
    while let Some(offer) = salts.due(now) {
        if !retained.iter().any(|(epoch, _)| *epoch == offer.epoch) {
            retained.push((offer.epoch, offer.candidate));
        }
        let (_, salt) = retained.iter().find(|(epoch, _)| *epoch == offer.epoch).expect("just kept");
        salts.adopt(offer.epoch, *salt);
    }
}

#[test]
fn visitor_ids_are_stable_within_an_epoch_only() {
    let salts = salts();
    let mut seen = Vec::new();
    for day in 0..10 {
        let start = MIDNIGHT.plus(day * WIDTH);
        let id = ann(&salts, start);
        assert_eq!(ann(&salts, start.plus(WIDTH - 1)), id);
        assert!(!seen.contains(&id));
        seen.push(id);
    }
}

#[test]
fn instances_share_salts_for_this_epoch_and_the_next() {
    let (one, other) = (salts(), salts());
    let (noon, mut retained) = (MIDNIGHT.plus(WIDTH / 2), Vec::new());
    assert_ne!(ann(&one, noon), ann(&other, noon));
    let first = ann(&one, noon);
    share(&one, noon, &mut retained);
    share(&other, noon, &mut retained);
    assert_eq!(ann(&one, noon), first, "what is offered first is kept");
    let morning = MIDNIGHT.plus(WIDTH);
    for at in [noon, morning] {
        assert_eq!(ann(&one, at), ann(&other, at));
    }
    assert_ne!(ann(&one, noon), ann(&one, morning));
}

#[test]
fn a_local_salt_is_replaced_when_the_store_is_back() {
    let (one, other) = (salts(), salts());
    let mut retained = Vec::new();
    share(&one, MIDNIGHT, &mut retained);
    let alone = ann(&other, MIDNIGHT);
    assert_ne!(alone, ann(&one, MIDNIGHT));
    share(&other, MIDNIGHT.plus(5), &mut retained);
    assert_eq!(ann(&other, MIDNIGHT.plus(6)), ann(&one, MIDNIGHT.plus(6)));
}

#[test]
fn the_next_salt_is_fetched_from_the_middle_of_an_epoch() {
    let salts = salts();
    let epochs = |now| {
        let mut retained = Vec::new();
        share(&salts, now, &mut retained);
        retained.iter().map(|(epoch, _)| epoch.start).collect::<Vec<_>>()
    };
    assert_eq!(epochs(MIDNIGHT), [MIDNIGHT]);
    assert_eq!(epochs(MIDNIGHT.plus(WIDTH / 2 - 1)), []);
    assert_eq!(epochs(MIDNIGHT.plus(WIDTH / 2)), [MIDNIGHT.plus(WIDTH)]);
    assert_eq!(epochs(MIDNIGHT.plus(WIDTH)), []);
    // Disconnected for two days.
    assert_eq!(epochs(MIDNIGHT.plus(3 * WIDTH)), [MIDNIGHT.plus(3 * WIDTH)]);
}

#[test]
fn with_a_secret_the_salt_is_not_sufficient() {
    let secret = Secret::from_bytes([1; 16]);
    let with = |secret| {
        let salts = Salting::new(DAY, None, secret).rotating;
        salts.adopt(DAY.bucket(MIDNIGHT), [7; 16]);
        ann(&salts, MIDNIGHT)
    };
    assert_eq!(with(None), VisitorKey::new([7; 16]).visitor(&[b"ann"]));
    assert_eq!(with(Some(&secret)), with(Some(&secret)), "instances agree");
    assert_ne!(with(Some(&secret)), with(None));
    assert_ne!(with(Some(&secret)), with(Some(&Secret::from_bytes([2; 16]))));
}

#[test]
fn a_salt_expires_at_the_end_of_the_next_epoch() {
    let offer = salts().due(MIDNIGHT.plus(100)).expect("it is new");
    assert_eq!(offer.expiry, MIDNIGHT.plus(2 * WIDTH));
}

#[test]
fn a_key_is_returned_with_the_end_of_the_epoch() {
    let salts = salts();
    for at in [MIDNIGHT, MIDNIGHT.plus(1), MIDNIGHT.plus(WIDTH - 1)] {
        assert_eq!(salts.key(at).1, MIDNIGHT.plus(WIDTH));
    }
    assert_eq!(salts.key(MIDNIGHT.plus(WIDTH)).1, MIDNIGHT.plus(2 * WIDTH));
    assert_eq!(Salt::from(VisitorKey::new([7; 16])).0.key(MIDNIGHT).1, Timestamp::MAX);
}

#[test]
fn unused_salts_are_not_shared() {
    assert!(Salting::new(DAY, None, None).rotating.due(MIDNIGHT).is_none());
}

#[test]
fn a_precision_coarser_than_the_epoch_is_rejected() {
    let set = |widths: &[u32]| {
        Precisions::new(widths.iter().map(|w| Precision::try_from(*w).expect("not 0"))).expect("a set")
    };
    let salting = Salting::new(DAY, None, None);
    assert_eq!(salting.check(&set(&[3600, 86_400])), Ok(()));
    let error = salting.check(&set(&[3600, 604_800])).expect_err("a week has seven epochs");
    assert_eq!(error.precision.as_seconds(), 604_800);
    let message = error.to_string();
    for word in ["604800", "86400", "stable identity", "longer epoch", "finer visitor precisions"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_precision_not_aligned_with_the_epoch_is_rejected() {
    let day = DAY.utc_offset(3600);
    let set = |precisions: &[Precision]| Precisions::new(precisions.iter().copied()).expect("a set");
    let hour = Precision::HOUR;
    let error = Salting::new(DAY, None, None).check(&set(&[hour, day])).expect_err("it has two epochs");
    assert_eq!(error, SaltError { precision: day, epoch: DAY });
    let message = error.to_string();
    for word in ["86400@82800", "not aligned", "same UTC offset", "stable identity"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(Salting::new(day, None, None).check(&set(&[hour, day])), Ok(()));
    // The days of a time zone, in a process that does not know it.
    assert_eq!(Salting::new(day, None, None).check(&set(&[hour, day, DAY])), Ok(()));
    // Some buckets of this precision always span two epochs.
    let five_hours = Precision::try_from(18_000).expect("not 0").utc_offset(3600);
    assert_eq!(Salting::new(DAY, None, None).check(&set(&[hour, five_hours])), Ok(()));
}

#[test]
fn the_default_epoch_is_aligned_with_visitor_days() {
    let of = |precisions: &[&str]| {
        let precisions = precisions.iter().map(|text| text.parse::<Precision>().expect(text));
        let set = Precisions::new(precisions).expect("a set");
        assert_eq!(Salting::new(default_epoch(&set), None, None).check(&set), Ok(()), "{set}");
        default_epoch(&set).to_string()
    };
    assert_eq!(of(&["3600", "86400"]), "86400");
    assert_eq!(of(&["3600", "86400@82800"]), "86400@82800");
    assert_eq!(of(&["3600@1800", "86400@66600"]), "86400@66600");
    assert_eq!(of(&["3600@1800"]), "86400@1800");
    assert_eq!(of(&["3600@1800", "18000@3600"]), "86400@1800");
    assert_eq!(of(&["18000@3600"]), "86400");
}
