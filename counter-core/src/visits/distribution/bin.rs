use std::fmt;
use std::time::Duration;

use super::measure::Measure;

/// A range of values of a [`Measure`], or a single number, to be counted in a distribution.
///
/// The ranges of times and sizes match OpenTelemetry's exponential histograms at scale 3 and Prometheus'
/// native histograms with schema 3. The upper bound is 2^(1/8) times the lower bound, i.e. about 9 % higher,
/// and is part of the range. The range with index `i` ends at 2^((i + 1)/8). Zero has a separate bin.
///
/// Times end at 2^12 s (68 minutes), and sizes at 2^48 bytes: higher values count in the last bin. Times
/// below 2^-20 s (1 µs) count in the first bin.
///
/// ```
/// use std::time::Duration;
/// use counter_core::visits::Bin;
///
/// let bin = Bin::time(Duration::from_millis(250));
/// assert_eq!(bin, Bin::time(Duration::from_millis(240)));
/// assert_eq!(bin.bounds().1, 0.25);
/// assert_eq!(Bin::status(404).to_string(), "c404");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bin {
    measure: Measure,
    index: i16,
}

/// Number of bins between a number and its double.
const SCALE: i16 = 8;

/// Index of the zero bin.
const ZERO: i16 = i16::MIN;

/// The mantissas of 2^(j/8), i.e. the 52 fraction bits of a number between 1 and 2, rounded down.
const FRACTIONS: [u64; SCALE as usize + 1] = [
    0,
    0x1_72b8_3c7d_517a,
    0x3_06fe_0a31_b715,
    0x4_bfda_d536_2a27,
    0x6_a09e_667f_3bcc,
    0x8_ace5_422a_a0db,
    0xa_e89f_995a_d3ad,
    0xd_5818_dcfb_a487,
    // Above any fraction.
    u64::MAX,
];

/// Number of [`FRACTIONS`] below each sixteenth, to find an index without a search. A sixteenth can't contain
/// two fractions.
const FRACTIONS_BELOW: [u8; 16] = {
    let mut before = [0; 16];
    let mut sixteenth = 1;
    while sixteenth < 16 {
        before[sixteenth] = before[sixteenth - 1];
        while FRACTIONS[before[sixteenth] as usize] < (sixteenth as u64) << (FRACTION_BITS - 4) {
            before[sixteenth] += 1;
        }
        sixteenth += 1;
    }
    before
};

const FRACTION_BITS: u32 = 52;
const EXPONENT_BIAS: i16 = 1023;

/// The highest HTTP status with a separate bin, which also counts all higher numbers.
const MAX_STATUS: i16 = 999;
/// The highest gRPC status with a separate bin, which also counts all higher numbers.
const MAX_GRPC: i16 = 99;

impl Bin {
    /// Returns the bin of a time to the response head.
    #[inline]
    #[must_use]
    pub fn time(time: Duration) -> Self {
        Self::of(Measure::Time, time.as_secs_f64())
    }

    /// Returns the same bin as [`time`](Self::time), for a time in nanoseconds.
    #[inline]
    #[must_use]
    pub fn nanoseconds(time: u64) -> Self {
        // Converting a signed number takes fewer instructions.
        Self::of(Measure::Time, i64::try_from(time).unwrap_or(i64::MAX) as f64 / 1e9)
    }

    /// Returns the bin of a time to the end of a response.
    #[inline]
    #[must_use]
    pub fn body(time: Duration) -> Self {
        Self::of(Measure::Body, time.as_secs_f64())
    }

    /// Returns the bin of a size in bytes.
    #[inline]
    #[must_use]
    pub fn size(bytes: u64) -> Self {
        Self::of(Measure::Size, bytes as f64)
    }

    /// Returns the bin of an HTTP status. Numbers above 999 count as 999.
    #[inline]
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { measure: Measure::Status, index: i16::try_from(status).unwrap_or(MAX_STATUS).min(MAX_STATUS) }
    }

    /// Returns the bin of a gRPC status. Numbers above 99 count as 99.
    #[inline]
    #[must_use]
    pub fn grpc(status: u16) -> Self {
        Self { measure: Measure::Grpc, index: i16::try_from(status).unwrap_or(MAX_GRPC).min(MAX_GRPC) }
    }

    /// Returns the bin with this index, or `None` if it is out of range of the measure.
    #[must_use]
    pub fn new(measure: Measure, index: i16) -> Option<Self> {
        let (first, last) = range(measure);
        let is_inside = (first..=last).contains(&index) || (index == ZERO && measure.is_range());
        is_inside.then_some(Self { measure, index })
    }

    /// Returns the measure.
    #[must_use]
    pub const fn measure(self) -> Measure {
        self.measure
    }

    /// Returns the index of the range, or the number. The index of the zero bin is `i16::MIN`.
    #[must_use]
    pub const fn index(self) -> i16 {
        self.index
    }

    /// Returns the lower bound (exclusive) and the upper bound (inclusive) of the range, in seconds or bytes.
    /// For a single number, both bounds are this number.
    #[must_use]
    pub fn bounds(self) -> (f64, f64) {
        match (self.measure.is_range(), self.index) {
            (true, ZERO) => (0.0, 0.0),
            (true, index) => (end(index), end(index + 1)),
            (false, number) => (number.into(), number.into()),
        }
    }

    /// Returns a value to represent the range. The relative error is at most [`Measure::RELATIVE_ERROR`] for
    /// any value in the range.
    #[must_use]
    pub fn value(self) -> f64 {
        let (low, high) = self.bounds();
        // The harmonic mean has the same relative error at both bounds.
        if high == 0.0 { 0.0 } else { 2.0 * low * high / (low + high) }
    }

    #[inline]
    fn of(measure: Measure, value: f64) -> Self {
        if value <= 0.0 {
            return Self { measure, index: ZERO };
        }
        let (first, last) = range(measure);
        Self { measure, index: index(value).clamp(first, last) }
    }

    /// Returns a unique number below 4096, to be used as the field in Redis: it takes 3 bytes in a hash,
    /// instead of 6 for a short string. A status has the same number; times are around 2000, times to the end
    /// are around 3000, and sizes start at 3498. The zero bin is just before the first bin of the measure.
    #[cfg(any(test, feature = "redis", feature = "spool"))]
    pub(crate) const fn number(self) -> u16 {
        let index = if self.index == ZERO { range(self.measure).0 - 1 } else { self.index };
        (base(self.measure) + index).cast_unsigned()
    }

    /// Returns the bin with this [number](Self::number).
    #[cfg(any(test, feature = "redis", feature = "spool"))]
    pub(crate) fn of_number(number: u16) -> Option<Self> {
        let of = |measure: Measure| {
            let index = i16::try_from(number).ok()?.checked_sub(base(measure))?;
            let is_zero = measure.is_range() && index == range(measure).0 - 1;
            Self::new(measure, if is_zero { ZERO } else { index })
        };
        Measure::ALL.into_iter().find_map(of)
    }

    /// Returns a non-zero number with the measure in the upper half and the index in the lower half.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        (self.measure as u32) << 16 | self.index.cast_unsigned() as u32
    }

    /// Returns the bin with these [bits](Self::bits).
    #[allow(clippy::cast_possible_truncation, reason = "the index is in the lower half")]
    pub(crate) fn of_bits(bits: u32) -> Option<Self> {
        let measure = Measure::ALL.into_iter().find(|measure| *measure as u32 == bits >> 16)?;
        Self::new(measure, (bits as u16).cast_signed())
    }

    /// Parses a bin from the [text form](fmt::Display).
    #[cfg(any(test, feature = "dump"))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.chars();
        let measure = Measure::of_code(rest.next()?)?;
        match rest.as_str() {
            "z" => Self::new(measure, ZERO),
            index => {
                let bin = Self::new(measure, index.parse().ok()?)?;
                // Only the canonical form is valid, so that a bin can't have two fields.
                (bin.index != ZERO && bin.index.to_string() == index).then_some(bin)
            }
        }
    }
}

/// Writes the letter of the measure and the index, e.g. `t-17` or `c404`. The zero bin is written like `tz`.
impl fmt::Display for Bin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            ZERO => write!(f, "{}z", self.measure.code()),
            index => write!(f, "{}{index}", self.measure.code()),
        }
    }
}

/// Returns the [number](Bin::number) of the bin with index 0. The numbers of different measures do not
/// overlap.
#[cfg(any(test, feature = "redis", feature = "spool"))]
const fn base(measure: Measure) -> i16 {
    match measure {
        Measure::Status => 0,
        Measure::Grpc => 1000,
        Measure::Time => 2000,
        Measure::Body => 3000,
        Measure::Size => 3500,
    }
}

/// Returns the first and the last index of a measure, except for the zero bin.
const fn range(measure: Measure) -> (i16, i16) {
    match measure {
        Measure::Time | Measure::Body => (-20 * SCALE, 12 * SCALE - 1),
        // A single byte is the upper bound of a range, so we need the range before index 0.
        Measure::Size => (-1, 48 * SCALE - 1),
        Measure::Status => (0, MAX_STATUS),
        Measure::Grpc => (0, MAX_GRPC),
    }
}

/// Returns the range index of a positive number. We compute this from the bits, because a logarithm would be
/// slower and rounded.
#[inline]
fn index(value: f64) -> i16 {
    let bits = value.to_bits();
    let exponent = i16::try_from(bits >> FRACTION_BITS & 0x7ff).unwrap_or_default() - EXPONENT_BIAS;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let before = FRACTIONS_BELOW[usize::try_from(fraction >> (FRACTION_BITS - 4)).unwrap_or_default() & 15];
    let is_above = fraction > FRACTIONS[usize::from(before)];
    // A power of two is an upper bound, and does not have any fractions below it.
    exponent * SCALE + i16::from(before) + i16::from(is_above) - 1
}

/// Returns the lower bound of an index: 2^(i/8), rounded down.
fn end(index: i16) -> f64 {
    let exponent = index.div_euclid(SCALE) + EXPONENT_BIAS;
    let fraction = FRACTIONS[usize::try_from(index.rem_euclid(SCALE)).unwrap_or_default()];
    f64::from_bits(u64::from(exponent.unsigned_abs()) << FRACTION_BITS | fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn durations() -> impl Strategy<Value = Duration> {
        (0..45_u32, any::<u64>()).prop_map(|(bits, nanos)| Duration::from_nanos(nanos >> (63 - bits)))
    }

    fn bins() -> impl Strategy<Value = Bin> {
        (prop::sample::select(Measure::ALL.to_vec()), any::<i16>(), any::<bool>())
            .prop_filter_map("beyond the range", |(measure, index, small)| {
                Bin::new(measure, if small { index % 200 } else { index })
            })
    }

    #[test]
    fn a_range_includes_the_upper_bound_only() {
        for index in -160..96 {
            let bin = Bin::new(Measure::Time, index).expect("inside");
            let (low, high) = bin.bounds();
            assert_eq!(Bin::of(Measure::Time, high), bin, "{index}");
            assert_eq!(Bin::of(Measure::Time, high.next_up()).index, (index + 1).min(95));
            assert_eq!(Bin::of(Measure::Time, low.next_up()), bin, "{index}");
            assert!((high / low - 2_f64.powf(0.125)).abs() < 1e-12, "{index}");
            assert!((high / 2_f64.powf(f64::from(index + 1) / 8.0) - 1.0).abs() < 1e-12, "{index}");
        }
        assert_eq!(Bin::time(Duration::from_secs(1)).bounds().1, 1.0);
    }

    #[test]
    fn values_out_of_range_are_clamped_and_zero_has_a_separate_bin() {
        assert_eq!(Bin::time(Duration::MAX).to_string(), "t95");
        assert_eq!(Bin::time(Duration::from_nanos(1)).to_string(), "t-160");
        assert_eq!(Bin::time(Duration::ZERO).to_string(), "tz");
        assert_eq!(Bin::size(u64::MAX).to_string(), "s383");
        assert_eq!(Bin::size(1).to_string(), "s-1");
        assert_eq!(Bin::size(0).value(), 0.0);
        assert_eq!(Bin::status(u16::MAX).to_string(), "c999");
        assert_eq!(Bin::grpc(14).value(), 14.0);
        for text in ["", "t", "tz1", "x1", "t96", "t-161", "t01", "t+1", "t-0", "c-1", "cz", "t-32768", "é1"]
        {
            assert_eq!(Bin::parse(text), None, "{text}");
        }
    }

    #[test]
    fn nanoseconds_and_durations_map_to_the_same_bins() {
        let bounds = (-170..100).map(|index| 1e9 * end(index));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a non-negative integer")]
        let near = bounds
            .flat_map(|bound| (-2..=2).map(move |more| (bound.floor() as u64).saturating_add_signed(more)));
        for time in near.chain([0, 1, u64::MAX]) {
            assert_eq!(Bin::nanoseconds(time), Bin::time(Duration::from_nanos(time)), "{time}");
        }
    }

    proptest! {
        #[test]
        fn larger_values_have_higher_bins(a in durations(), b in durations()) {
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(Bin::time(short) <= Bin::time(long));
            let [small, large] = [short, long].map(|time| u64::try_from(time.as_nanos()).expect("it fits"));
            prop_assert!(Bin::size(small) <= Bin::size(large));
        }

        #[test]
        fn a_bin_contains_the_value_within_the_relative_error(time in durations()) {
            let (bin, seconds) = (Bin::time(time), time.as_secs_f64());
            let (low, high) = bin.bounds();
            if (2_f64.powi(-20)..=2_f64.powi(12)).contains(&seconds) {
                prop_assert!(low < seconds && seconds <= high, "{seconds} in {low}..={high}");
                prop_assert!((bin.value() / seconds - 1.0).abs() <= Measure::RELATIVE_ERROR);
            }
        }

        #[test]
        fn a_bin_round_trips_through_text_number_and_bits(bin in bins()) {
            prop_assert_eq!(Bin::parse(&bin.to_string()), Some(bin));
            prop_assert_eq!(Bin::of_number(bin.number()), Some(bin));
            prop_assert_eq!(Bin::of_bits(bin.bits()), Some(bin));
            prop_assert!(bin.number() < 4096);
        }

        #[test]
        fn bin_numbers_are_unique(number in any::<u16>()) {
            prop_assert!(Bin::of_number(number).is_none_or(|bin| bin.number() == number));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,8}") {
            if let Some(bin) = Bin::parse(&text) {
                prop_assert_eq!(bin.to_string(), text);
            }
        }
    }
}
