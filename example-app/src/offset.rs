//! Offsets of clocks from UTC, as people write them.

/// Reads `+05:30`, in seconds; at most 14 hours and 59 minutes.
pub(crate) fn seconds(text: &str) -> Result<i32, String> {
    read(text).ok_or_else(|| "hours and minutes ahead of UTC, such as +01:00 or -05:30".to_owned())
}

fn read(text: &str) -> Option<i32> {
    let (sign, time) = text.split_at_checked(1)?;
    let (hours, minutes) = time.split_once(':')?;
    let ahead = number(hours, 14)? * 3600 + number(minutes, 59)? * 60;
    match sign {
        "+" => Some(ahead),
        "-" => Some(-ahead),
        _ => None,
    }
}

/// Two digits.
fn number(text: &str, most: i32) -> Option<i32> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_sign_hours_and_minutes() {
        for (text, expected) in [
            ("+00:00", Some(0)),
            ("-00:00", Some(0)),
            ("+01:00", Some(3600)),
            ("-05:30", Some(-19_800)),
            ("+14:00", Some(50_400)),
            ("+15:00", None),
            ("+01:60", None),
            ("+1:00", None),
            ("01:00", None),
            ("+0100", None),
            ("3600", None),
            ("+-1:00", None),
            ("++1:+5", None),
            ("é01:00", None),
            ("", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
