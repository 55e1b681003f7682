//! Scripts that check a page.

/// Accessibility rules for all pages. This returns the violations.
pub(super) const ACCESSIBILITY_SCRIPT: &str = r##"
const wrong = [], say = (rule, element) => wrong.push(`${rule}: ${element.outerHTML.slice(0, 120)}`);
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = (element) => element.checkVisibility() && element.getClientRects().length;
const name = (element) => element.getAttribute("aria-label")
  || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent).join("")
  || element.labels?.[0]?.textContent || element.textContent;
if (!document.documentElement.lang) wrong.push("no language");
if (!document.title) wrong.push("no title");
if (all("h1").length !== 1) wrong.push("not one h1");
if (all("main").length !== 1) wrong.push("not one main");
let level = 0;
for (const heading of all("h1,h2,h3,h4")) {
  const next = +heading.localName[1];
  if (next > level + 1) say("a level is left out", heading);
  level = next;
}
const ids = all("[id]").map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice #${id}`);
for (const element of all("a[href], button, input:not([type=hidden]), nav, section, [role=img], [role=region], [role=slider], summary")) {
  if (shown(element) && !name(element).trim()) say("no name", element);
}
for (const chart of all("svg:not([aria-hidden]):not(svg svg)")) {
  if (!chart.getAttribute("aria-label")) say("a chart without a name", chart);
}
if (all("#lines").length && all("#twin tbody tr").length !== all("#lines rect.column").length && all("#lines rect.column").length) wrong.push("a chart without its table");
const regions = new Set();
for (const region of all("nav, section[aria-labelledby], [role=region], [role=search]")) {
  const called = `${region.role || region.localName} ${name(region).trim()}`;
  if (regions.has(called)) say("a region named as another", region);
  regions.add(called);
}
for (const table of all("table")) {
  if (!table.querySelector("thead th[scope=col]")) say("no heads of columns", table);
  if (table.querySelector("tbody tr") && !table.querySelector("tbody th[scope=row]")) say("no heads of rows", table);
}
for (const target of all("a[href], button, summary, select, input:not([type=hidden])")) {
  const box = target.getBoundingClientRect();
  // A page without a style has the sizes of the browser. A link in a sentence is as high as a line.
  if (!document.styleSheets.length || !shown(target) || target.matches("p:not(.files, .crumb) a, .skip")) continue;
  if (box.height < 24 || box.width < 20) say(`too small, ${box.width} by ${box.height}`, target);
}
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return [255, 255, 255, 1];
};
const contrast = (one, other) => {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};
for (const element of all("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !shown(element)) continue;
  const style = getComputedStyle(element);
  const colour = rgba(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  if (!element.closest("header, main, footer, .skip")) say("outside of all landmarks", element);
  const found = contrast(colour, behind(element));
  if (found < 4.5) say(`contrast ${found.toFixed(2)}`, element);
}
for (const line of all(".line, .mark path, .spark path, .over")) {
  const style = getComputedStyle(line);
  const found = contrast(rgba(line.matches(".over") ? style.fill : style.stroke), behind(line));
  if (found < 3) say(`contrast ${found.toFixed(2)}`, line);
}
for (const element of all("a[href], button, input:not([type=hidden]), summary, [tabindex='0']")) {
  if (!shown(element)) continue;
  element.focus({ focusVisible: true, preventScroll: true });
  if (document.activeElement !== element) say("takes no focus", element);
  if (getComputedStyle(element).outlineStyle === "none") say("its focus cannot be seen", element);
}
document.activeElement?.blur();
return wrong;
"##;

/// Time axis labels that overlap the label to the left, or are cut off.
pub(super) const AXIS_LABELS_SCRIPT: &str = r##"
const box = document.getElementById("lines").getBoundingClientRect();
const marks = [...document.querySelectorAll(".time")].filter((mark) => mark.checkVisibility());
const boxes = marks.map((mark) => [mark.textContent, mark.getBoundingClientRect()]);
return boxes.filter(([, at], place) =>
  at.left < box.left - 1 || at.right > box.right + 1 || (place && at.left < boxes[place - 1][1].right + 2)).map(([text]) => text);
"##;

/// The positions of everything above the panels, and the messages that may move them.
///
/// The panels get another row with the first hit of a value, so what follows them may move.
pub(super) const LAYOUT_SCRIPT: &str = r##"
const panels = document.querySelector(".panels");
const isAbove = (e) => !(panels.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING);
const places = [...document.querySelectorAll("main > *, main > .panel > *, .plot > *")].filter(isAbove).map((e) => {
  const box = e.getBoundingClientRect();
  return [e.id || e.className, box.top + scrollY, box.left];
});
const messages = ["annotations", "raised", "status", "unread"].map((id) => document.getElementById(id)?.textContent);
return { places, messages };
"##;

/// Texts of cards, and numbers of panels, that are cut off or reach out of their box.
pub(super) const CUT_TEXTS_SCRIPT: &str = r##"
const right = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect().right;
};
const isCut = (text) => {
  const box = text.closest(".card, .panel").getBoundingClientRect();
  return text.scrollWidth > text.clientWidth + 1 && getComputedStyle(text).display !== "inline" || right(text) > box.right;
};
return [...document.querySelectorAll(".card > *, .card small *, .top .number, .top .share, .top .change")]
  .filter((text) => text.checkVisibility() && isCut(text)).map((text) => text.textContent);
"##;

/// Pixels by which the page is too wide.
pub(super) const OVERFLOW_SCRIPT: &str = "return document.documentElement.scrollWidth - innerWidth";
