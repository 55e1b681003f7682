// Keeps the page up to date, moves through it without loading it anew, and shows times in the viewer's
// zone. Everything is there without it.
"use strict";
(() => {
  const EVERY = 1000, QUIET = 5000, ROWS_EVERY = 10_000, PATIENCE = 5;
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
    // A day is one of the site, whoever looks at it.
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

  // The start of the bucket that is looked at; another one takes its place as time goes on.
  let looked = null;
  const rows = () => [...(byId("twin")?.rows ?? [])].reverse();
  const startOf = (row) => row.querySelector("time").dateTime;
  const look = (place) => {
    const all = rows(), lines = byId("lines");
    if (!all.length || !lines) return;
    const row = all[Math.max(0, Math.min(all.length - 1, place))];
    looked = startOf(row);
    place = all.indexOf(row);
    const middle = (1000 * (place + 0.5)) / all.length;
    byId("cross").setAttribute("d", `M${middle} 0V220`);
    const said = document.createElement("span");
    const time = row.querySelector("time");
    said.textContent = time.textContent;
    const parts = [said];
    [...row.cells].slice(1).forEach((cell, number) => {
      if (!cell.textContent) return;
      const head = byId("twin-head").rows[0].cells[number + 1], name = head.textContent;
      const part = document.createElement("span"), swatch = document.createElement("span");
      if (head.classList.contains("told")) {
        part.textContent = cell.textContent;
        parts.push(part);
        return;
      }
      swatch.className = `swatch ${head.classList.contains("expected") ? "expected" : `c${number}`}`;
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
    // What they say the script says better, and at once.
    for (const title of lines.querySelectorAll("title")) title.remove();
    if (looked === null) return;
    const place = all.findIndex((row) => startOf(row) === looked);
    if (place < 0) look(0); else look(place);
  };
  document.addEventListener("pointermove", (event) => {
    const lines = event.target.closest?.("#lines");
    if (!lines) return;
    const box = lines.getBoundingClientRect();
    look(Math.floor(((event.clientX - box.left) / box.width) * rows().length));
  });
  const moveInChart = (event) => {
    const all = rows(), last = all.length - 1;
    const found = all.findIndex((row) => startOf(row) === looked);
    const place = found < 0 ? last + 1 : found;
    const to = {
      ArrowLeft: place - 1, ArrowDown: place - 1, ArrowRight: found < 0 ? 0 : place + 1, ArrowUp: found < 0 ? 0 : place + 1,
      PageUp: place - 10, PageDown: place + 10, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    look(to);
  };

  // --- parts

  const take = (page) => {
    for (const next of page.querySelectorAll("[data-part]")) {
      const current = byId(next.id);
      if (!current) continue;
      localise(next);
      if (next.dataset.f) current.dataset.f = next.dataset.f;
      if (next.id === "plot") {
        // The focus is on what is inside, so that stays.
        const [lines, fresh] = [current.querySelector("#lines"), next.querySelector("#lines")];
        lines.setAttribute("aria-label", fresh.getAttribute("aria-label"));
        lines.replaceChildren(...fresh.childNodes);
        current.querySelector(".counts").replaceChildren(...next.querySelector(".counts").childNodes);
      } else if (!current.contains(document.activeElement) && current.innerHTML !== next.innerHTML) {
        current.className = next.className;
        current.replaceChildren(...next.childNodes);
      }
    }
    dressChart();
  };
  const read = async (address, tag) => {
    const headers = { accept: "text/html", ...(tag && { "if-none-match": tag }) };
    const answer = await fetch(address, { headers, cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { answer, page };
  };
  const say = (text, on) => {
    const live = byId("live");
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("on", on);
  };

  // It asks every second while something changes, and less and less often while nothing does.
  let moving = 0, failed = 0, rowsAt = Date.now(), pause = EVERY, tag = null;
  // The answer of an older address must not overwrite a newer page.
  const refresh = async (generation) => {
    const withRows = Date.now() - rowsAt >= ROWS_EVERY;
    const { address, parts } = document.body.dataset;
    try {
      const { answer, page } = withRows ? await read(address) : await read(parts, tag);
      if (generation !== moving) return;
      const same = answer.status === 304;
      if (!same) take(page);
      if (!same && !answer.ok) throw new Error(answer.status);
      pause = same ? Math.min(pause + EVERY, QUIET) : EVERY;
      if (withRows) rowsAt = Date.now();
      else tag = answer.headers.get("etag");
      failed = 0;
      say("Live", true);
    } catch (error) {
      if (generation !== moving) return;
      failed += 1;
      pause = Math.min(EVERY * 2 ** Math.max(0, failed - PATIENCE), 30_000);
      // An answer that is an error is certain; a connection that failed may be a moment without a network.
      const isPatient = !Number(error.message) && failed < PATIENCE;
      if (error.message === "401") say("Your session has ended: log in again", false);
      else say(isPatient ? "Live" : "No numbers from the server; trying again", isPatient);
    }
  };
  const run = async (generation) => {
    [pause, tag] = [EVERY, null];
    while (generation === moving) {
      await new Promise((resume) => setTimeout(resume, pause));
      if (generation === moving && !document.hidden) await refresh(generation);
    }
  };
  document.addEventListener("visibilitychange", () => say(document.hidden ? "Paused" : "Live", !document.hidden));

  // --- addresses

  const go = async (address, push) => {
    const generation = ++moving;
    const focus = document.activeElement?.id;
    const opened = [...document.querySelectorAll("details[open]")].map((details) => details.id);
    try {
      const { answer, page } = await read(address);
      if (generation !== moving) return;
      if (!page.body?.dataset.parts || answer.redirected) throw new Error("another page");
      if (push) history.pushState(null, "", address);
      const samePage = document.querySelector("h1").textContent === page.querySelector("h1").textContent;
      document.title = page.title;
      Object.assign(document.body.dataset, page.body.dataset);
      if (page.documentElement.dataset.zone) root.dataset.zone = page.documentElement.dataset.zone;
      else delete root.dataset.zone;
      for (const place of ["main", ".heading"]) {
        document.querySelector(place).replaceChildren(...page.querySelector(place).childNodes);
      }
      byId("zone").replaceChildren(...page.getElementById("zone").childNodes);
      byId("zone").href = page.getElementById("zone").getAttribute("href");
      for (const id of opened) if (byId(id)) byId(id).open = true;
      localise(document.body);
      nameZone();
      dressChart();
      if (!samePage) scrollTo(0, 0);
      (byId(focus) ?? byId("main")).focus({ preventScroll: true });
      rowsAt = Date.now();
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
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get" || event.target.hasAttribute("action")) return;
    event.preventDefault();
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(event.target)) if (value) query.append(name, value);
    go(`${location.pathname}?${query}`, true);
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
    say("Live", true);
    run(moving);
  }
})();
