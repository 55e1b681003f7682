use loom::thread::spawn;

use super::places::Noted;
use super::recent::RecentValues;
use crate::sync::Arc;

#[test]
fn a_value_is_never_found_at_the_place_of_another_value() {
    loom::model(|| {
        let recent = Arc::new(RecentValues::new());
        let values =
            [("a", 3), ("b", 4)].map(|(value, place)| (value.as_bytes(), Noted { place, generation: 0 }));
        let thread = {
            let recent = Arc::clone(&recent);
            spawn(move || values.iter().for_each(|(value, noted)| recent.insert(value, *noted)))
        };
        for (value, noted) in values {
            assert!(recent.find(value).is_none_or(|found| found == noted));
        }
        thread.join().expect("no panic");
        let find = || values.map(|(value, _)| recent.find(value));
        assert_eq!(find(), [None, Some(values[1].1)]);
        recent.clear();
        assert_eq!(find(), [None, None]);
    });
}
