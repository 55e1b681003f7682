//! A time of day, as people write it.

/// Reads `04:00`, in seconds after midnight.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    read(text).ok_or_else(|| "a time of day, such as 04:00 or 23:30".to_owned())
}

fn read(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    Some(number(hours, 23)? * 3600 + number(minutes, 59)? * 60)
}

/// Two digits.
fn number(text: &str, most: u32) -> Option<u32> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_hours_and_minutes() {
        for (text, expected) in [
            ("00:00", Some(0)),
            ("04:30", Some(16_200)),
            ("23:59", Some(86_340)),
            ("24:00", None),
            ("4:00", None),
            ("04:60", None),
            ("0400", None),
            ("+4:00", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
