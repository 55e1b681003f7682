// Keeps the page up to date and follows links without a full reload. All pages also work without this script.
"use strict";
(() => {
  // In milliseconds. If an answer takes longer, the page says so, but it can still arrive until the request is canceled.
  const RETRY_INTERVAL = 1000, MAX_INTERVAL = 5000, MAX_ANSWER_TIME = 5000, MAX_REQUEST_TIME = 20_000;
  const TOLERATED_FAILURES = 5;
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // --- times

  // Pages show times in the time zone of the site, or all times in that of the viewer.
  const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zone = () => "local" in root.dataset ? viewerZone : root.dataset.site;
  const options = {
    s: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    m: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    d: { day: "numeric", month: "short" },
    f: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    fy: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  };
  const formats = new Map();
  const write = (milliseconds, style, timeZone = zone()) => {
    const key = style + timeZone;
    if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options[style], timeZone }));
    return formats.get(key).format(milliseconds).replace(",", "").replace("Sept", "Sep");
  };
  // A day of the site starts at any time of the viewer.
  const timeOf = (style) => style.replace("d", "f");
  const localise = (within) => {
    if (!("local" in root.dataset)) return;
    for (const name of within.querySelectorAll(".zone")) name.textContent = viewerZone;
    for (const time of within.querySelectorAll("time[datetime]")) {
      time.textContent = write(Date.parse(time.dateTime), timeOf(time.closest("[data-f]").dataset.f));
    }
    for (const title of within.querySelectorAll("title[data-t]")) {
      const at = write(Date.parse(title.dataset.t), timeOf(title.dataset.f));
      title.textContent = title.textContent.replace(/^.*/, `${at} ${viewerZone}`);
    }
    for (const mark of within.querySelectorAll("text[data-t]")) {
      const at = mark.dataset.t * 1000, { f } = mark.dataset;
      const isMidnight = write(at, "s") === "00:00:00";
      mark.textContent = write(at, "md".includes(f) ? (isMidnight ? "d" : "m") : f);
    }
  };
  const offerZone = () => {
    const isSame = (days) => {
      const [here, there] = [viewerZone, root.dataset.site].map((zone) => write(Date.now() + days * 86_400_000, "fy", zone));
      return here === there;
    };
    // Clocks may only differ in a part of the year.
    if (byId("zone")) byId("zone").hidden = [0, 91, 182, 273].every(isSame);
  };

  // --- the chart

  // The start of the selected bucket. We keep the start because the index changes with time.
  let selected = null;
  const rows = () => [...document.querySelectorAll("#twin tbody tr")].reverse();
  const startOf = (row) => row.querySelector("time").dateTime;
  const select = (place) => {
    const all = rows(), lines = byId("lines");
    if (!all.length || !lines) return;
    const row = all[Math.max(0, Math.min(all.length - 1, place))];
    selected = startOf(row);
    place = all.indexOf(row);
    const middle = (1000 * (place + 0.5)) / all.length;
    byId("cross").setAttribute("d", `M${middle} 0V220`);
    const timePart = document.createElement("span");
    const time = row.querySelector("time");
    timePart.textContent = time.textContent;
    const parts = [timePart];
    [...row.cells].slice(1).forEach((cell, number) => {
      if (!cell.textContent) return;
      const head = byId("twin-head").rows[0].cells[number + 1], name = head.textContent;
      const part = document.createElement("span"), swatch = document.createElement("span");
      if (head.classList.contains("events")) {
        part.textContent = cell.textContent;
        parts.push(part);
        return;
      }
      const special = ["expected", "compared"].find((name) => head.classList.contains(name));
      swatch.className = `swatch ${special ?? `c${number}`}`;
      swatch.textContent = String.fromCharCode(65 + number);
      const isolated = document.createElement("bdi");
      isolated.textContent = name;
      part.append(swatch, " ", isolated, `: ${cell.textContent}`);
      parts.push(part);
    });
    byId("readout").replaceChildren(...parts);
    lines.setAttribute("aria-valuenow", place);
    lines.setAttribute("aria-valuetext", parts.map((part) => part.textContent).join(", "));
  };
  const dressChart = () => {
    const lines = byId("lines");
    if (!lines) return;
    const all = rows();
    lines.setAttribute("role", "slider");
    lines.setAttribute("aria-valuemin", 0);
    lines.setAttribute("aria-valuemax", Math.max(0, all.length - 1));
    lines.setAttribute("aria-valuenow", Math.max(0, all.length - 1));
    // The readout replaces the titles and is immediate.
    for (const title of lines.querySelectorAll("title")) title.remove();
    if (selected === null) return;
    const place = all.findIndex((row) => startOf(row) === selected);
    if (place < 0) select(0); else select(place);
  };
  const placeAt = (x) => {
    const box = byId("lines").getBoundingClientRect(), last = rows().length - 1;
    return Math.max(0, Math.min(last, Math.floor(((x - box.left) / box.width) * (last + 1))));
  };
  // The bucket where a drag started, which zooms the chart. A touch scrolls the page instead.
  let dragged = null;
  const showDrag = (from, to) => {
    const width = 1000 / rows().length, selection = byId("selection");
    selection.setAttribute("x", Math.min(from, to) * width);
    selection.setAttribute("width", from === to ? 0 : (Math.abs(to - from) + 1) * width);
  };
  document.addEventListener("pointerdown", (event) => {
    const lines = event.target.closest?.("#lines");
    if (!lines) return;
    const place = placeAt(event.clientX);
    select(place);
    if (event.pointerType === "touch" || event.button !== 0 || !byId("zoom")) return;
    dragged = place;
    // The drag can end outside of the window.
    lines.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (dragged === null && !event.target.closest?.("#lines")) return;
    const place = placeAt(event.clientX);
    select(place);
    if (dragged !== null) showDrag(dragged, place);
  });
  document.addEventListener("pointerup", (event) => {
    if (dragged === null) return;
    const ends = [dragged, placeAt(event.clientX)].sort((one, other) => one - other);
    showDrag(0, 0);
    dragged = null;
    // A click opens a bucket if it is at least a day.
    if (ends[0] === ends[1] && !("opens" in byId("zoom").dataset)) return;
    openRange(...ends);
  });
  const unix = (row) => Date.parse(startOf(row)) / 1000;
  // Opens the buckets from a row to the one of another row as the period.
  const openRange = (from, to) => {
    const all = rows();
    // The future has no data.
    if (unix(all[from]) * 1000 > Date.now()) return;
    // Buckets can have different lengths, and one may have begun after the page was read.
    const width = unix(all.at(-1)) - unix(all.at(-2)), last = unix(all.at(-1)), end = Number(byId("zoom").dataset.end);
    const until = all[to + 1] ? unix(all[to + 1]) : end > last ? end : last + width;
    go(`${byId("zoom").dataset.zoom}&from=${unix(all[from])}&to=${until}`, true);
  };
  const moveInChart = (event) => {
    const all = rows(), last = all.length - 1;
    const found = all.findIndex((row) => startOf(row) === selected);
    const place = found < 0 ? last + 1 : found;
    if (event.key === "Enter" && found >= 0 && "opens" in byId("zoom").dataset) openRange(place, place);
    const to = {
      ArrowLeft: place - 1, ArrowDown: place - 1, ArrowRight: found < 0 ? 0 : place + 1, ArrowUp: found < 0 ? 0 : place + 1,
      PageUp: place - 10, PageDown: place + 10, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(to);
  };

  // --- parts

  const apply = (page) => {
    for (const next of page.querySelectorAll("[data-part]:not([data-part] [data-part])")) {
      const current = byId(next.id);
      // The content of the plot is replaced while it has the focus.
      if (!current || (next.id !== "plot" && current.contains(document.activeElement))) continue;
      localise(next);
      for (const same of next.querySelectorAll("[data-same]")) same.replaceWith(byId(same.id) ?? "");
      if (next.dataset.tag) current.dataset.tag = next.dataset.tag;
      else delete current.dataset.tag;
      if (next.dataset.f) current.dataset.f = next.dataset.f;
      if (next.id === "plot") {
        const [lines, fresh] = [current.querySelector("#lines"), next.querySelector("#lines")];
        lines.setAttribute("aria-label", fresh.getAttribute("aria-label"));
        lines.replaceChildren(...fresh.childNodes);
        current.querySelector(".counts").replaceChildren(...next.querySelector(".counts").childNodes);
        continue;
      }
      for (const { id } of current.querySelectorAll("details[open]")) {
        const same = next.querySelector(`#${CSS.escape(id)}`);
        if (same) same.open = true;
      }
      current.className = next.className;
      current.replaceChildren(...next.childNodes);
    }
    dressChart();
  };
  // When the pending request was sent.
  let asked = null;
  const read = async (address, known) => {
    const headers = { accept: "text/html", ...known };
    const own = asked = Date.now();
    try {
      const signal = AbortSignal.timeout(MAX_REQUEST_TIME);
      const response = await fetch(address, { headers, signal, cache: "no-store" });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      return { response, page };
    } finally {
      if (asked === own) asked = null;
    }
  };

  // When the latest answer was received, and the latest whole page.
  let updated = Date.now(), wholeAt = Date.now();
  const setLive = (text, state = "") => {
    if (document.hidden) [text, state] = ["Paused", ""];
    const live = byId("live");
    if (live.textContent !== text) live.textContent = text;
    live.className = `live ${state}`;
  };
  // This does not change every second, because screen readers would repeat it.
  const since = (state) => `${state} since ${write(updated, "m")}`;
  const setAway = () => setLive(since("Store unreachable"), "away");
  const isAway = () => document.querySelector("[data-away]") !== null;
  const setSilent = () => {
    byId("main").classList.add("stale");
    setLive(since("No answer"));
  };

  // Reads less often while nothing changes. Other events can wake it up.
  let moving = 0, failed = 0, pause = 0, wake = () => {};
  const paces = () => document.body.dataset.pace.split(" ").map((seconds) => seconds * 1000);
  // A late response for a previous address must not overwrite the current page.
  const refresh = async (generation) => {
    const [partsPace, pagePace] = paces(), { address, parts } = document.body.dataset;
    // A message on missing data is part of the whole page.
    const whole = Date.now() - wholeAt >= (byId("unread")?.firstChild ? Math.min(pagePace, 10_000) : pagePace);
    const tags = [...document.querySelectorAll("[data-tag]")].map((part) => part.dataset.tag);
    try {
      const { response, page } = await read(whole ? address : parts, { "x-known-parts": tags.join(" ") });
      if (generation !== moving) return;
      const same = response.status === 204;
      if (!same) apply(page);
      // Numbers that were read before the store became unreachable are dimmed.
      byId("main").classList.toggle("stale", response.status === 503);
      if (!response.ok) throw new Error(response.status);
      // This is an error page, and the store is back.
      if (failed && isAway() && !page.querySelector("[data-away]")) return go(address, false);
      pause = same ? Math.min(pause + partsPace, Math.max(partsPace, MAX_INTERVAL)) : partsPace;
      updated = Date.now();
      // After an outage, all parts are read again.
      if (failed) wholeAt = 0;
      else if (whole) wholeAt = updated;
      failed = 0;
      setLive("Live", "on");
    } catch (error) {
      if (generation !== moving) return;
      failed += 1;
      pause = Math.min(RETRY_INTERVAL * 2 ** Math.max(0, failed - TOLERATED_FAILURES), 30_000);
      // An error response is shown immediately, but a failed connection might be a short network outage.
      const isTolerated = !Number(error.message) && failed < TOLERATED_FAILURES;
      if (error.message === "401") setLive("Session expired. Sign in again.");
      else if (error.message === "503") setAway();
      else if (!isTolerated) setSilent();
    }
  };
  const run = async (generation) => {
    [pause] = paces();
    while (generation === moving) {
      await new Promise((resume) => {
        wake = resume;
        setTimeout(resume, pause);
      });
      if (generation === moving && !document.hidden && dragged === null) await refresh(generation);
    }
  };
  const start = () => {
    failed = isAway() ? 1 : 0;
    wholeAt = Date.now();
    if (!failed) updated = wholeAt;
    if (failed) setAway();
    else setLive("Live", "on");
    run(moving);
  };

  // --- addresses

  const PARTS = ["main", ".heading", ".tools", ".currently", "#more > .sheet"];
  // The timer of the search.
  let typed = 0;
  // Opens a view. With `replace`, the view replaces the current one in the history. The history keeps the open tabs.
  const go = async (address, push, { replace, typed: isTyped, kept = [] } = {}) => {
    const generation = ++moving;
    clearTimeout(typed);
    const focus = document.activeElement?.id, menu = document.activeElement?.closest(".menu")?.id;
    const opened = [...document.querySelectorAll("details[open]:not(.menu)")].map((details) => details.id);
    const tabs = [...document.querySelectorAll(".choices :checked")].map((tab) => tab.id);
    if (push && !replace) history.replaceState({ tabs }, "");
    try {
      const { response, page } = await read(address);
      if (generation !== moving) return;
      if (!page.body?.dataset.parts || response.redirected) throw new Error("another page");
      if (push) history[replace ? "replaceState" : "pushState"](null, "", address);
      const samePage = document.querySelector("h1").textContent === page.querySelector("h1").textContent;
      document.title = page.title;
      Object.assign(document.body.dataset, page.body.dataset);
      root.toggleAttribute("data-local", "local" in page.documentElement.dataset);
      byId("zone-name").textContent = root.dataset.site;
      const { value, selectionStart: caret } = document.activeElement ?? {};
      byId("main").classList.remove("stale");
      byId("more").open = false;
      for (const place of PARTS) {
        document.querySelector(place).replaceChildren(...page.querySelector(place).childNodes);
      }
      for (const id of opened) if (byId(id)) byId(id).open = true;
      for (const id of [...tabs, ...kept]) if (byId(id)) byId(id).checked = true;
      localise(document.body);
      offerZone();
      dressChart();
      if (!samePage) scrollTo(0, 0);
      byId(new URL(address, location).hash.slice(1))?.scrollIntoView();
      // A menu is closed now.
      ((menu ? byId(menu)?.querySelector("summary") : byId(focus)) ?? byId("main")).focus({ preventScroll: true });
      if (isTyped && focus === "q" && byId("q")) {
        // The user might have typed more in the meantime.
        byId("q").value = value;
        byId("q").setSelectionRange(caret, caret);
      }
      start();
    } catch {
      location.assign(address);
    }
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-go], #zone");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute("href"), true);
  });
  const submit = (form, replace) => {
    const query = new URLSearchParams(), { pathname } = new URL(form.action);
    for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
    go(`${pathname}?${query}`, true, { typed: true, replace: replace && pathname === location.pathname });
  };
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get") return;
    event.preventDefault();
    submit(event.target, false);
  });
  // Search while typing.
  document.addEventListener("input", (event) => {
    if (event.target.id !== "q") return;
    clearTimeout(typed);
    typed = setTimeout(() => { if (byId("q")) submit(byId("q").form, true); }, 100);
  });
  // Menus close with Escape, or after a click elsewhere.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(".menu[open]")) {
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
      menu.open = false;
    }
  });
  // In a menu, arrow keys move the focus.
  document.addEventListener("keydown", (event) => {
    const menu = event.target.closest?.(".menu");
    if (!menu || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1, Home: 1, End: -1 }[event.key];
    if (!step || (event.target.matches("summary") && !menu.open && !event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    menu.open = true;
    const items = [...menu.querySelectorAll("li a, li button")].filter((item) => item.checkVisibility());
    const from = event.key.startsWith("Arrow") ? items.indexOf(event.target) : -1;
    items.at(from < 0 ? (step > 0 ? 0 : -1) : (from + step) % items.length)?.focus();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    if (event.target.closest?.("a[href='#note-details']")) {
      byId("more").open = false;
      byId("note-details").open = true;
      byId("note-text").focus();
    }
  });
  // The server does not know the time zone of the viewer.
  document.addEventListener("formdata", ({ target, formData }) => {
    for (const { name, value } of target.querySelectorAll("[data-instant]")) {
      if (value && "local" in root.dataset) formData.set(name, Date.parse(value) / 1000);
    }
  });
  addEventListener("popstate", ({ state }) => go(location.pathname + location.search, false, { kept: state?.tabs }));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select")) return;
    if (event.target.id === "lines") moveInChart(event);
    if (event.key.toLowerCase() === "u" && !byId("zone")?.hidden) byId("zone")?.click();
    if (event.shiftKey || event.repeat || event.target.closest?.("#lines, .scroll, .menu, summary")) return;
    const keys = {
      d: "period-today", w: "period-this-week", m: "period-this-month", y: "period-this-year", ArrowLeft: "earlier", ArrowRight: "later",
    };
    byId(keys[event.key])?.click();
  });

  localise(document.body);
  offerZone();
  dressChart();
  if (document.querySelector("[data-part]:not(#revocations)")) {
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) setLive();
      else wake();
    });
    setInterval(() => {
      if (asked && Date.now() - asked > MAX_ANSWER_TIME) setSilent();
    }, 1000);
    start();
  }
})();

// The page that creates share links: a button copies the link.
(() => {
  const [link, copy, copied] = ["shared", "copy", "copied"].map((id) => document.getElementById(id));
  if (!link) return;
  // Only the browser knows the origin if a proxy does not report it.
  const { pathname, search } = new URL(link.value, location.href);
  link.value = location.origin + pathname + search;
  copy.hidden = false;
  link.addEventListener("focus", () => link.select());
  copy.addEventListener("click", async () => {
    link.select();
    // Without TLS, browsers don't provide a clipboard.
    const isCopied = await (navigator.clipboard?.writeText(link.value).then(() => true, () => false) ?? document.execCommand("copy"));
    copied.textContent = isCopied ? "Copied" : "Press Ctrl+C to copy";
  });
})();
