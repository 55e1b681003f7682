//! Replies to batches that are sent again.

use counter_core::stores::WriterId;
use counter_core::unstable::sqlx;
use counter_core::visits::DropReason;
use counter_core::visits::store::{ApplyOutcome, Part, Read, Remark, Write};
use counter_core::{SqlStore, Timestamp};
use sqlx::Connection;
use tests::MariaDb;
use tokio::task::block_in_place;

use super::{batch, cell};
use crate::stores::{self, sql};
use crate::support::name;

/// A process that resends a batch should get the same reply as before.
async fn remarks(store: SqlStore) {
    let (writer, now) = (WriterId::random(), Timestamp::now());
    let most = u64::try_from(i64::MAX).expect("positive");
    let full = batch(writer, 1, vec![cell("a", now, most)]);
    let began = vec![Remark::NewLifetime { cell: 0 }];
    let next = vec![
        cell("a", now, 1),
        cell("b", now, 2),
        cell("b", now.plus(26 * 3600), 1),
        cell("c", now, u64::MAX),
        cell("d", now, most),
        cell("d", now, 1),
    ];
    let next = batch(writer, 2, next);
    let refused = |cell, reason| Remark::Rejected { part: Part::Cell(cell), reason, message: None };
    let received = vec![
        refused(2, DropReason::Ahead),
        refused(0, DropReason::OutOfRange),
        refused(3, DropReason::OutOfRange),
        refused(5, DropReason::OutOfRange),
        Remark::NewLifetime { cell: 1 },
        Remark::NewLifetime { cell: 4 },
    ];
    for (batch, remarks) in [(&full, began), (&next, received)] {
        for _ in 0..2 {
            assert_eq!(store.apply(batch).await.expect("it exists"), ApplyOutcome::Applied(remarks.clone()));
        }
    }
    let names = ["a", "b", "c", "d"].map(name);
    let totals =
        store.lifetimes(&names).await.expect("readable").into_iter().map(|total| total.expect("a total"));
    assert_eq!(totals.collect::<Vec<_>>(), [most, 2, 0, most]);
}

#[tokio::test]
async fn sqlite_repeats_the_remarks_for_a_resent_batch() {
    remarks(stores::sqlite_in_memory().await.1).await;
}

#[tokio::test]
async fn postgres_repeats_the_remarks_for_a_resent_batch() {
    let (_server, store) = stores::postgres().await;
    remarks(store).await;
}

#[tokio::test]
async fn mariadb_repeats_the_remarks_for_a_resent_batch() {
    let (_server, store) = stores::mariadb().await;
    remarks(store).await;
}

/// InnoDB may show a batch before its log is written. If the server were killed after the reply to a resent
/// batch, or to a probe, the batch must not be lost.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_writes_the_log_before_it_replies_to_a_resent_batch_or_a_probe() {
    // Another test must not write to the log, nor sync it.
    let server = block_in_place(|| MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]));
    let store = sql(&server.url()).await;
    let mut connection = sqlx::MySqlConnection::connect(&server.url()).await.expect("the server replies");
    let mut position = async |variable| -> u64 {
        let text = "SELECT CAST(variable_value AS UNSIGNED) FROM information_schema.global_status \
            WHERE variable_name = ?";
        sqlx::query_scalar(text).bind(variable).fetch_one(&mut connection).await.expect("a status variable")
    };
    let writer = WriterId::random();
    let sent = batch(writer, 1, vec![cell("a", Timestamp::now(), 1)]);
    let applied = store.apply(&sent).await.expect("the server replies");
    let ApplyOutcome::Applied(_) = applied else { panic!("{applied:?}") };
    // A process that recovers a spool probes for the fence like this.
    let probe = batch(writer, (1 << 53) - 1, Vec::new());
    let mut other = sqlx::MySqlConnection::connect(&server.url()).await.expect("the server replies");
    for attempt in 0..40 {
        // This adds to the log, but does not sync it.
        let rolled_back = "START TRANSACTION; DELETE FROM access_meta; ROLLBACK";
        sqlx::raw_sql(rolled_back).execute(&mut other).await.expect("the server replies");
        let end = position("INNODB_LSN_CURRENT").await;
        let batch = if attempt % 2 == 0 { &sent } else { &probe };
        match store.apply(batch).await.expect("the server replies") {
            ApplyOutcome::Applied(_) if batch == &sent => {}
            ApplyOutcome::SequenceGap { found } if batch == &probe && found.sequence == 1 => {}
            outcome => panic!("attempt {attempt}: {outcome:?}"),
        }
        assert!(position("INNODB_LSN_FLUSHED").await >= end, "attempt {attempt}");
    }
    assert_eq!(store.lifetimes(&[name("a")]).await.expect("readable")[0].as_ref().ok(), Some(&1));
}
