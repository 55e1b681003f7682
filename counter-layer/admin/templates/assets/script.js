// Keeps the page up to date, follows links without a full reload, and shows times in the time zone of
// the viewer. All pages also work without this script.
"use strict";
(() => {
  const POLL_INTERVAL = 1000, MAX_POLL_INTERVAL = 5000, TABLE_INTERVAL = 10_000, TOLERATED_FAILURES = 5;
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const utc = () => root.dataset.zone === "utc";

  // --- times

  const options = {
    s: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    m: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    d: { day: "numeric", month: "short" },
    f: { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    dy: { day: "numeric", month: "short", year: "numeric" },
    fy: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  };
  const formats = new Map();
  const write = (milliseconds, style) => {
    // Days are always in the time zone of the site.
    const zone = utc() || style.startsWith("d") ? root.dataset.site : undefined;
    const key = style + zone;
    if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options[style], timeZone: zone }));
    return formats.get(key).format(milliseconds).replace(",", "");
  };
  const localise = (within) => {
    for (const time of within.querySelectorAll("time[datetime]")) {
      time.textContent = write(Date.parse(time.dateTime), time.closest("[data-f]").dataset.f);
    }
    for (const mark of within.querySelectorAll("text[data-t]")) {
      mark.textContent = write(mark.dataset.t * 1000, mark.dataset.f);
    }
  };
  const nameZone = () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    byId("zone-name").textContent = utc() ? root.dataset.site : `Local time (${zone})`;
    byId("zone").hidden = false;
  };

  // --- the chart

  // The start of the selected bucket. We keep the start because the index changes with time.
  let selected = null;
  const rows = () => [...(byId("twin")?.rows ?? [])].reverse();
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
    const all = rows(), ends = [dragged, placeAt(event.clientX)].sort((one, other) => one - other);
    showDrag(0, 0);
    dragged = null;
    if (ends[0] === ends[1]) return;
    const unix = (row) => Date.parse(startOf(row)) / 1000;
    // The first bucket can be shorter than the others.
    const width = unix(all.at(-1)) - unix(all.at(-2));
    const to = all[ends[1] + 1] ? unix(all[ends[1] + 1]) : unix(all[ends[1]]) + width;
    go(`${byId("zoom").dataset.zoom}&from=${unix(all[ends[0]])}&to=${to}`, true);
  });
  const moveInChart = (event) => {
    const all = rows(), last = all.length - 1;
    const found = all.findIndex((row) => startOf(row) === selected);
    const place = found < 0 ? last + 1 : found;
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
    for (const next of page.querySelectorAll("[data-part]")) {
      const current = byId(next.id);
      if (!current) continue;
      localise(next);
      if (next.dataset.f) current.dataset.f = next.dataset.f;
      if (next.id === "plot") {
        // The inner element might have the focus, so we only replace the content.
        const [lines, fresh] = [current.querySelector("#lines"), next.querySelector("#lines")];
        lines.setAttribute("aria-label", fresh.getAttribute("aria-label"));
        lines.replaceChildren(...fresh.childNodes);
        current.querySelector(".counts").replaceChildren(...next.querySelector(".counts").childNodes);
        continue;
      }
      for (const { id } of current.querySelectorAll("details[open]")) {
        const same = page.getElementById(id);
        if (same) same.open = true;
      }
      if (!current.contains(document.activeElement) && current.innerHTML !== next.innerHTML) {
        current.className = next.className;
        current.replaceChildren(...next.childNodes);
      }
    }
    dressChart();
  };
  const read = async (address, tag) => {
    const headers = { accept: "text/html", ...(tag && { "if-none-match": tag }) };
    const response = await fetch(address, { headers, cache: "no-store" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return { response, page };
  };
  const setLive = (text, state = "") => {
    const live = byId("live");
    if (live.textContent !== text) live.textContent = text;
    live.className = `live ${state}`;
  };

  // Polls every second while the page changes, and less often otherwise.
  let moving = 0, failed = 0, rowsAt = Date.now(), updated = Date.now(), pause = POLL_INTERVAL, tag = null;
  // This does not change every second, because screen readers would repeat it.
  const since = (state) => `${state} since ${write(updated, "m")}`;
  // A late response for a previous address must not overwrite the current page.
  const refresh = async (generation) => {
    const withRows = Date.now() - rowsAt >= TABLE_INTERVAL;
    const { address, parts } = document.body.dataset;
    try {
      const { response, page } = withRows ? await read(address) : await read(parts, tag);
      if (generation !== moving) return;
      const same = response.status === 304;
      if (!same) apply(page);
      // Numbers that were read before the store became unreachable are dimmed.
      byId("main").classList.toggle("stale", response.status === 503);
      if (!same && !response.ok) throw new Error(response.status);
      // This is an error page, and the store is back.
      if (failed && !byId("plot") && page.querySelector("#plot")) return go(address, false);
      pause = same ? Math.min(pause + POLL_INTERVAL, MAX_POLL_INTERVAL) : POLL_INTERVAL;
      if (withRows) rowsAt = Date.now();
      else tag = response.headers.get("etag");
      failed = 0;
      updated = Date.now();
      setLive("Live", "on");
    } catch (error) {
      if (generation !== moving) return;
      failed += 1;
      pause = Math.min(POLL_INTERVAL * 2 ** Math.max(0, failed - TOLERATED_FAILURES), 30_000);
      // An error response is shown immediately, but a failed connection might be a short network outage.
      const isTolerated = !Number(error.message) && failed < TOLERATED_FAILURES;
      if (error.message === "401") setLive("Session expired. Sign in again.");
      else if (error.message === "503") setLive(since("Store unreachable"), "away");
      else if (!isTolerated) setLive(since("Disconnected"));
    }
  };
  const run = async (generation) => {
    [pause, tag] = [POLL_INTERVAL, null];
    while (generation === moving) {
      await new Promise((resume) => setTimeout(resume, pause));
      if (generation === moving && !document.hidden && dragged === null) await refresh(generation);
    }
  };

  // --- addresses

  const PARTS = ["main", ".heading", ".tools", "#more > .sheet"];
  // The timer of the search.
  let typed = 0;
  // Opens a view. With `replace`, the view replaces the current one in the history.
  const go = async (address, push, replace) => {
    const generation = ++moving;
    clearTimeout(typed);
    const focus = document.activeElement?.id, menu = document.activeElement?.closest(".menu")?.id;
    const opened = [...document.querySelectorAll("details[open]:not(.menu)")].map((details) => details.id);
    try {
      const { response, page } = await read(address);
      if (generation !== moving) return;
      if (!page.body?.dataset.parts || response.redirected) throw new Error("another page");
      if (push) history[replace ? "replaceState" : "pushState"](null, "", address);
      const samePage = document.querySelector("h1").textContent === page.querySelector("h1").textContent;
      document.title = page.title;
      Object.assign(document.body.dataset, page.body.dataset);
      if (page.documentElement.dataset.zone) root.dataset.zone = page.documentElement.dataset.zone;
      else delete root.dataset.zone;
      const { value, selectionStart: caret } = document.activeElement ?? {};
      byId("main").classList.remove("stale");
      byId("more").open = false;
      for (const place of PARTS) {
        document.querySelector(place).replaceChildren(...page.querySelector(place).childNodes);
      }
      for (const id of opened) if (byId(id)) byId(id).open = true;
      localise(document.body);
      nameZone();
      dressChart();
      if (!samePage) scrollTo(0, 0);
      byId(new URL(address, location).hash.slice(1))?.scrollIntoView();
      // A menu is closed now.
      ((menu ? byId(menu)?.querySelector("summary") : byId(focus)) ?? byId("main")).focus({ preventScroll: true });
      if (focus === "q" && byId("q")) {
        // The user might have typed more in the meantime.
        byId("q").value = value;
        byId("q").setSelectionRange(caret, caret);
      }
      rowsAt = updated = Date.now();
      run(generation);
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
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) query.append(name, value);
    go(`${location.pathname}?${query}`, true, replace);
  };
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get" || event.target.hasAttribute("action")) return;
    event.preventDefault();
    submit(event.target, false);
  });
  // Search while typing.
  document.addEventListener("input", (event) => {
    if (event.target.id !== "q") return;
    clearTimeout(typed);
    typed = setTimeout(() => { if (byId("q")) submit(byId("q").form, true); }, 250);
  });
  // Menus close with Escape, or after a click elsewhere.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(".menu[open]")) {
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
      menu.open = false;
    }
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
      if (value && !utc()) formData.set(name, Date.parse(value) / 1000);
    }
  });
  addEventListener("popstate", () => go(location.pathname + location.search, false));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select")) return;
    if (event.target.id === "lines") moveInChart(event);
    if (event.key.toLowerCase() === "u") byId("zone").click();
  });

  localise(document.body);
  nameZone();
  dressChart();
  if (document.querySelector("[data-part]")) {
    setLive("Live", "on");
    document.addEventListener("visibilitychange", () => setLive(...(document.hidden ? ["Paused"] : ["Live", "on"])));
    run(moving);
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
