use std::ops::AddAssign;

/// What happened to everything that was seen, since the process began.
///
/// Two equations hold at every observation:
///
/// - `requests.observed = requests.recorded + excluded + unmatched + ignored.total()`, in requests;
/// - `hits.recorded = hits.applied + pending + expired + dropped`, in hits by their weight. A request
///   that counts under its page and under `hits` makes two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// What became of the requests.
    pub requests: Requests,
    /// What became of the hits.
    pub hits: Hits,
}

/// Requests by what was decided about them; each is here once its outcome is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// All of them.
    pub observed: u64,
    /// Those that made at least one hit.
    pub recorded: u64,
    /// Those that a rule keeps out.
    pub excluded: u64,
    /// Those that no rule wants.
    pub unmatched: u64,
    /// Those left out for another reason.
    pub ignored: Ignored,
    /// Those in `recorded` that programs made.
    pub bots: u64,
    /// Those in `recorded` whose response was to wait for the store and did not wait any longer.
    pub unconfirmed: u64,
}

/// Requests that no rule keeps out and that were left out all the same, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// They ended in a way that is not wanted.
    pub outcome: u64,
    /// They were made ahead of a visit that may never come.
    pub prefetch: u64,
}

/// Who makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Agent {
    /// Somebody, as far as one can tell.
    Human,
    /// A program.
    Bot,
}

/// Why a request made no hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// A rule keeps it out.
    Excluded,
    /// No rule wants it.
    Unmatched,
    /// It ended in a way that is not wanted.
    Outcome,
    /// It was made ahead of a visit that may never come.
    Prefetch,
}

/// Hits, by weight, by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// All that were recorded.
    pub recorded: u64,
    /// Those that the store acknowledged.
    pub applied: u64,
    /// Those that are still to be acknowledged.
    pub pending: u64,
    /// Those that waited until no precision kept their bucket any more.
    pub expired: u64,
    /// Those that the store refused for good.
    pub dropped: Dropped,
    /// Those in `recorded` that went to the counter `(other)`.
    pub overflow: u64,
    /// Those in `applied` that the store lost after acknowledging them, too old to be sent again.
    pub lost_by_server: u64,
}

/// Hits that are not known to be in the store, by reason: at least one key refused most of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped {
    /// The key holds a value of another type.
    pub wrong_type: u64,
    /// The bucket holds something that is not an integer.
    pub not_a_number: u64,
    /// The sum would not fit in 64 bits with a sign.
    pub out_of_range: u64,
    /// The clock of this process was so far ahead of the store's that the bucket is still to come.
    pub ahead: u64,
    /// The store did not answer, and lost the fence that would have told whether it counted them.
    pub in_doubt: u64,
    /// Anything else.
    pub other: u64,
}

/// Why a key of the store refused a cell or a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The key holds a value of another type.
    WrongType,
    /// The bucket holds something that is not an integer.
    NotANumber,
    /// The sum would not fit in 64 bits with a sign.
    OutOfRange,
    /// Its bucket begins too long after the time of the store's clock.
    Ahead,
    /// Anything else.
    Other,
}

impl Requests {
    pub(crate) fn record(&mut self, agent: Agent) {
        self.observed += 1;
        self.recorded += 1;
        self.bots += u64::from(agent == Agent::Bot);
    }

    pub(crate) fn skip(&mut self, skip: Skip) {
        self.observed += 1;
        *match skip {
            Skip::Excluded => &mut self.excluded,
            Skip::Unmatched => &mut self.unmatched,
            Skip::Outcome => &mut self.ignored.outcome,
            Skip::Prefetch => &mut self.ignored.prefetch,
        } += 1;
    }

    /// Whether the first equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.observed == self.recorded + self.excluded + self.unmatched + self.ignored.total()
    }
}

impl Ignored {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.outcome + self.prefetch
    }
}

impl Hits {
    /// Whether the second equation of the ledger holds.
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.recorded == self.applied + self.pending + self.expired + self.dropped.total()
    }
}

impl Dropped {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.wrong_type + self.not_a_number + self.out_of_range + self.ahead + self.in_doubt + self.other
    }

    pub(crate) fn of(&mut self, reason: DropReason) -> &mut u64 {
        match reason {
            DropReason::WrongType => &mut self.wrong_type,
            DropReason::NotANumber => &mut self.not_a_number,
            DropReason::OutOfRange => &mut self.out_of_range,
            DropReason::Ahead => &mut self.ahead,
            DropReason::Other => &mut self.other,
        }
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        self.observed += other.observed;
        self.recorded += other.recorded;
        self.excluded += other.excluded;
        self.unmatched += other.unmatched;
        self.ignored.outcome += other.ignored.outcome;
        self.ignored.prefetch += other.ignored.prefetch;
        self.bots += other.bots;
        self.unconfirmed += other.unconfirmed;
    }
}
