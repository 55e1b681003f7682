//! The dashboard: pages, periods and charts.
//!
//! The first page answers questions in this order:
//!
//! - How many people came, and how many are here now? The cards show people, views, errors, response times and bots. The chart
//!   shows the chosen card.
//! - Where do they come from, and what do they read? Sources and addresses have people and views if these
//!   [labels](counter_layer::Label) are counted. The table of all pages is next to the addresses.
//! - What should be fixed? Missing pages with the hosts that link to them, and slow pages.
//! - Who are they, and what do crawlers read?
//!
//! "All" at the end of a panel of pages or label values opens a list of all of them, which can be searched, sorted and
//! downloaded. On the page of a counter, this opens a list of its own values or pages. You can search for a value by its name,
//! such as `Germany`, or by the text that we store. Unless you search, the file of a label also has rows for hits without a value
//! (`(none)`) and for all values that are not listed (`(not listed)`), so that the hits add up to the total.
//!
//! What is not recorded is listed at the end, followed by the numbers of the service: hits, statuses and methods. Without
//! [views](counter_layer::AccessCounterLayer::views), or in a period in which they began, the card and the table show hits
//! instead. Counters also have separate pages. You need to enable the [`Facet`](counter_layer::Facet)s for status and agent to
//! see the shares of errors and bots.
//!
//! The first page of a [fleet](counter_core::fleet) starts with its sites, side by side: people, the change, the share of errors
//! and a small chart of each. A site without visitors shows hits. If a site can't be read, it says so.
//!
//! Everything on a page is about one period, which is part of the address:
//!
//! | parameter | values |
//! |---|---|
//! | `period` | `today`, `yesterday`, `week`, `month`, `year`, `last-week`, `last-month`, `last-year`, a number with a unit such as `5min`, `1h`, `7d` or `12mo`, `all`, or `custom` |
//! | `from`, `to` | the ends of a custom period: dates (the final one is included), local times such as `2026-11-20T14:03`, or Unix seconds |
//! | `by` | the interval of the chart: `second`, `minute`, `hour`, `day`, `week`, `month`, or a number of seconds |
//! | `compare` | `previous` (the default), `year` (52 weeks earlier, or 12 months for months), or `none` |
//! | `show` | the unit of the chart: `people`, `views`, `hits`, `share` for the percentage of hits, or `p90` for the 90 % quantile of the response time |
//! | `label`, `q`, `sort`, `page` | of a list: the label whose values are listed (pages by default), the text to search for, the order (`name`, `total`, `people`, `change`, `lifetime`), and the page, with 50 rows |
//! | `zone` | `local` to show the times of a chart within a day in the time zone of the viewer |
//! | `view` | `service` to show hits, the numbers of the service and what to fix first, for those who are on call |
//! | `site` | the name of a site of a [fleet](counter_core::fleet) |
//!
//! By default, a page shows today if it has hits, and otherwise the last 7 days. Days start at midnight, either in
//! UTC, with a [`utc_offset`](counter_core::Builder::utc_offset), or in the
//! [time zone](crate::guide#days-of-a-time-zone) of the site. A period that has not ended is compared with the
//! same elapsed part of the other period. The menu only lists periods that are retained: in order to show
//! 12 months, you need to retain 365 days with [`Builder::precisions`](counter_core::Builder::precisions) or in an
//! archive. If only a part of a period is retained, then the page shows this part and says so. `all` starts with the
//! first retained hit of the first counter.
//!
//! All lines of a chart have the same unit. By default, these are people if they are kept for all intervals of the chart and
//! there were any, and otherwise hits. The same applies if a counter does not have the requested unit: most labels count no
//! people. An open page and a shared view keep their unit. Only views and hits have forecasts, because other units can't be
//! added up. Statuses and agents can be shown as a share of all statuses or agents, in percent. With
//! [distributions](counter_core::guide::distributions), a page can be shown as the 90 % quantile of the time to the response head.
//!
//! The number of people is the union over the period. A visitor without a stable identity is counted once per epoch of the
//! salt, which is a day by default. Bots and people without an identity are not included. Lists and charts can be downloaded
//! as CSV, charts also as SVG.
//!
//! If [distributions](counter_core::guide::distributions) are enabled, a counter page also shows a chart of
//! the median and of the 90 % and 99 % quantiles of the time to the response head, on a logarithmic axis, and
//! a table of these quantiles for times and sizes. The error of a value is at most 5 %. The table also shows
//! the change from the compared period, unless the change is within the errors of both values. For statuses,
//! it shows the share of the requests in both periods. We use the precision closest to the chart.
//!
//! The pages work without scripts. If scripts are enabled, the pages will stay up to date: every second for charts of
//! seconds, up to every 5 s for charts of days. An update only contains the parts that changed. If there is no answer
//! for 5 s, the page says since when, and dims its numbers. You can bookmark and share the address of a page, because it
//! contains the whole view. The router serves all styles and scripts, and the content security policy blocks everything
//! else.
//!
//! All times on a page are in one time zone, which is named at the top: that of the site, or that of the viewer if they
//! choose so in the menu. Days are always those of the site, so charts of days are only shown in its time zone.
//!
//! A chart shows up to 750 buckets, e.g. two years of days, or a month of hours. Without `by`, it has the finest interval with
//! at most 100 buckets, where weeks and months must be whole. Drag on the chart to zoom; a click on a day, week or month opens
//! it. The keys D, W, M and Y choose the current day, week, month or year, and the arrow keys the period before or after. The
//! legend contains the sums of the lines, with the change from the compared period. A change is only shown if the counter, and
//! every site of a fleet, was counted before the compared period or in its first twentieth. Otherwise the page says since when it
//! is counted. If the first hit of a page or value is in the period, the change is "New".
//!
//! A line has gaps if the count is unknown, i.e. until the counter gets a hit, or if the store is
//! unavailable. Otherwise, empty buckets are shown as 0. The most recent seconds are shaded, because the next
//! flush may still add hits.
//!
//! For the current day, week or month, the page says which total of people, views or hits to expect, and the chart shows it as a
//! hollow dot. The count so far is divided by the share that earlier ones had reached at this time (chain-ladder method): the same
//! days of the last four weeks, or the last days, as far as their hours are kept; the last four weeks; or the last three months.
//! There is no estimate before a quarter of an earlier total, or if less than two earlier ones are known.
//!
//! If you set [`Options::notes`](crate::Options::notes), charts show notes as vertical lines, with the text below. Clients with the
//! right to do so can add and remove notes via a form.
//!
//! If you set [`Options::goals`](crate::Options::goals), the page of a counter has a form to mark it as a goal, and the first page
//! shows how many people reach each goal, and their share of the people of the site. If you set
//! [`Options::alerts`](crate::Options::alerts), the alerts page has forms to add rules on errors, slow responses, missing requests and
//! unusual traffic.
//!
//! The chart can show a forecast for the first counter, as a dotted line. The band around it should contain
//! 95 of 100 counts. Below the chart, you can see the forecast error on past data, compared to the naive
//! forecast, or the reason why a forecast is not possible. Unusual samples are marked with ◇, and with
//! `unusual` in the table.
//!
//! Lists can be sorted by people. Redis counts the visitors of up to 10,000 counters in a single
//! round trip per shard. This takes 3 µs for a counter with 1,000 visitors and 0.1 ms for much larger
//! counters. Redis caches the result, so this will be almost free until a new visitor arrives.
