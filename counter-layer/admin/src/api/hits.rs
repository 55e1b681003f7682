use axum::Json;
use counter_core::Stats;
use http::header::CONTENT_ENCODING;
use serde::Serialize;
use utoipa::ToSchema;

use super::parameter::{Number, ProducerName, RequestParts};
use super::route::Route;
use crate::access::right::HITS;
use crate::problem::Problem;
use crate::producers::{MAX_RECORDS, NotCounted, Producers, Receipt};
use crate::upload::Upload;

/// A producer, with the number of the latest counted request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counted {
    producer: String,
    /// 0 if no request was counted yet, or if the producer has been forgotten after a long pause.
    number: u64,
}

/// A request that was counted by this or an earlier attempt. `read` is the sum of the fields below it,
/// including the length of `malformed`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recorded {
    producer: String,
    number: u64,
    /// Records in the body.
    read: u64,
    /// Records with hits.
    recorded: u64,
    /// Records that the store already counted.
    already_counted: u64,
    /// Records that are excluded by a rule.
    excluded: u64,
    /// Records that don't match any rule.
    unmatched: u64,
    /// Records that are ignored because of the outcome.
    ignored: u64,
    /// Malformed records.
    malformed: Vec<MalformedRecord>,
    hits: RecordedHits,
}

/// The hits added by this request; 0 if an earlier attempt was counted. A record can produce multiple hits,
/// for different counters and labels.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordedHits {
    /// Hits added to buckets.
    applied: u64,
    /// Hits that are older than retention. These count in lifetime totals, unless the store may already have
    /// forgotten the producer at that time.
    expired: u64,
    /// Hits that the store rejected because the time is more than 25 hours ahead of the store clock.
    ahead: u64,
    /// Hits that the store rejected for a different reason.
    refused: u64,
}

/// A malformed line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MalformedRecord {
    /// The line number, starting at 1.
    line: u64,
    /// `json`, `fields`, `request` or `status`.
    reason: &'static str,
}

/// Maximum body size.
const MAX_BODY_BYTES: usize = 1 << 20;

pub(crate) fn routes(stats: &Stats, producers: &Producers) -> [Route; 2] {
    let state = (stats.clone(), producers.clone());
    let number_route =
        Route::get(HITS, "The number of the latest counted request of a producer", state.clone(), number)
            .json::<Counted>();
    let summary = "Counts hits of a producer; requests can be retried";
    let details = "The body has a record per line, up to 1,000 records and 1 MiB. A record is either \
                `{\"counter\":\"signups\",\"at\":1763700000,\"n\":3,\"visitor\":\"…\"}`, with optional `n` and `visitor`, \
                or a request with at least `path` and `at`: \
                `{\"path\":\"/articles/7\",\"method\":\"GET\",\"status\":200,\"at\":1763700000,\"address\":\"192.0.2.1\",\
                \"user_agent\":\"…\",\"time\":0.012,\"body\":0.02,\"size\":512}`, with the seconds to the response head and to \
                the end, and the body size in bytes. Unless the record has a `user_agent`, or `null` if the client did not send \
                one, bots can't be told from people. With a 200, the request is stored. \
                After a 503 or without a response, retry with the same records.";
    let mut record_route = Route::post(HITS, summary, state, record)
        .json::<Recorded>()
        .schema::<MalformedRecord>()
        .schema::<RecordedHits>()
        .details(details)
        .error_response("408", "The body did not arrive within 30 s")
        .error_response("409", "An earlier request is missing; `number` is the latest counted request")
        .error_response("413", "The body has too many bytes or records")
        .error_response("415", "The body has a content encoding")
        .error_response(
            "503",
            "The request may not have been counted, or too many bodies are incomplete; retry",
        );
    record_route.description.body = Some(("application/x-ndjson", "A record per line"));
    [number_route, record_route]
}

async fn number(
    RequestParts { state: (stats, producers), parameters: (ProducerName(producer),), .. }: RequestParts<
        (Stats, Producers),
        (ProducerName,),
    >,
) -> Result<Json<Counted>, Problem> {
    let number = producers.number(&producer).await.map_err(|error| Problem::of(&error, &stats))?;
    Ok(Json(Counted { producer: producer.name().to_owned(), number }))
}

async fn record(
    request: RequestParts<(Stats, Producers), (ProducerName, Number)>,
    body: Upload,
) -> Result<Json<Recorded>, Problem> {
    let RequestParts {
        state: (stats, producers),
        parameters: (ProducerName(producer), Number(number)),
        headers,
        ..
    } = request;
    // Otherwise, a compressed body would be counted as a malformed line.
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::encoded_body());
    }
    let body = body.read(MAX_BODY_BYTES).await?;
    match producers.count(&producer, number, &body).await {
        Ok(receipt) => Ok(Json(Recorded::of(producer.name(), number, receipt))),
        Err(NotCounted::TooManyRecords) => {
            Err(Problem::too_large(format!("the body has more than {MAX_RECORDS} records")))
        }
        Err(NotCounted::Gap(counted)) => Err(Problem::number_gap(number, counted)),
        Err(NotCounted::Store(error)) => Err(Problem::hits_not_counted(&error, &stats)),
    }
}

impl Recorded {
    fn of(producer: &str, number: u64, receipt: Receipt) -> Self {
        let Receipt { read, recorded, already_counted, excluded, unmatched, ignored, hits, malformed } =
            receipt;
        let malformed = malformed.into_iter();
        Self {
            producer: producer.to_owned(),
            number,
            read,
            recorded,
            already_counted,
            excluded,
            unmatched,
            ignored,
            malformed: malformed
                .map(|(line, reason)| MalformedRecord { line: line as u64, reason: reason.name() })
                .collect(),
            hits: RecordedHits {
                applied: hits.applied,
                expired: hits.expired,
                ahead: hits.dropped.ahead,
                refused: hits.dropped.total() - hits.dropped.ahead,
            },
        }
    }
}
