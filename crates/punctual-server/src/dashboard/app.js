// Progressive enhancement only: every page is whole and works with this file missing.

const byId = (id) => document.getElementById(id);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const kept = {
  get: (name) => { try { return localStorage.getItem("punctual." + name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem("punctual." + name, value); } catch { /* a browser that keeps nothing */ } },
};

// What was done is said once: reading the page again must not say it again.
{
  const here = new URL(location.href);
  if (here.searchParams.has("did")) {
    here.searchParams.delete("did");
    history.replaceState(null, "", here);
  }
}

// Theme and zone

const root = document.documentElement;
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
if (kept.get("theme")) root.dataset.theme = kept.get("theme");

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  kept.set("theme", root.dataset.theme);
}

let isUtc = kept.get("zone") !== "mine";
function switchZone() {
  isUtc = !isUtc;
  kept.set("zone", isUtc ? "utc" : "mine");
  showTimes();
}

// Times: relative ones are kept current, absolute ones are shown in the zone that was chosen.

const zone = () => (isUtc ? "UTC" : undefined);
const format = (options) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone: zone(), ...options });
const pad = (number) => String(number).padStart(2, "0");

function absolute(at) {
  const parts = Object.fromEntries(
    format({ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" })
      .formatToParts(at).map(({ type, value }) => [type, value]),
  );
  return `${parts.year}-${parts.month}-${parts.day} ${parts.hour}:${parts.minute}:${parts.second} ${parts.timeZoneName}`;
}

function coarse(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showTimes() {
  const now = Date.now();
  for (const element of all("time[data-relative]")) {
    const at = new Date(element.dateTime);
    const seconds = (at - now) / 1000;
    put(element, Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `in ${coarse(seconds)}` : `${coarse(-seconds)} ago`);
    element.title = absolute(at);
  }
  for (const element of all("time[data-absolute]")) put(element, absolute(new Date(element.dateTime)));
  for (const element of all("time[data-clock]")) put(element, format({ timeStyle: "medium" }).format(new Date(element.dateTime)));
  for (const element of all("time[data-mine]")) {
    const at = new Date(element.dateTime);
    put(element, `${at.toLocaleDateString("en-GB", { weekday: "short" })} ${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}`);
  }
  for (const element of all("text[data-at]")) {
    const options = { hour: "2-digit", minute: "2-digit" };
    if ("day" in element.dataset) options.weekday = "short";
    if ("second" in element.dataset) options.second = "2-digit";
    put(element, format(options).format(new Date(element.dataset.at)));
  }
  const button = byId("zone");
  if (button) put(button, isUtc ? "UTC" : "Local");
}

// Patching: an element becomes like another, and whatever need not change stays the same element, with
// its focus, its selection and whether it is open or ticked.

const isOwn = (element, name) =>
  (element.nodeName === "DETAILS" && name === "open") ||
  (element.nodeName === "INPUT" && (name === "checked" || name === "value"));

function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || (from.id || "") !== (to.id || "")) {
    from.replaceWith(to.cloneNode(true));
    return;
  }
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  if (from.nodeType !== Node.ELEMENT_NODE || "selected" in from.dataset) return;
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !isOwn(from, name) && name !== "hidden") from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (!isOwn(from, name) && from.getAttribute(name) !== value && name !== "hidden") from.setAttribute(name, value);
  }
  if ("keyed" in from.dataset) morphKeyed(from, to);
  else morphChildren(from, to);
}

function morphChildren(from, to) {
  const olds = [...from.childNodes].filter((node) => !node.classList?.contains("pill"));
  const news = [...to.childNodes];
  news.forEach((node, index) => (olds[index] ? morph(olds[index], node) : from.append(node.cloneNode(true))));
  olds.slice(news.length).forEach((node) => node.remove());
}

// Rows are matched by their id. While somebody points at a list or has ticked something in it, rows that
// are new wait behind a button, so that nothing jumps under the pointer.
function morphKeyed(from, to) {
  const olds = new Map([...from.children].map((row) => [row.id, row]));
  const isHeld = "hold" in from.dataset && (from.closest("table").matches(":hover") || from.querySelector("input:checked") || from.contains(document.activeElement));
  if (isHeld) {
    let news = 0;
    for (const row of to.children) {
      const old = olds.get(row.id);
      if (old) morph(old, row);
      else news += 1;
    }
    return showPill(from, news);
  }
  showPill(from, 0);
  let place = from.firstElementChild;
  for (const row of to.children) {
    const old = olds.get(row.id);
    olds.delete(row.id);
    if (!old) {
      const added = row.cloneNode(true);
      from.insertBefore(added, place);
    } else {
      if (old === place) place = place.nextElementSibling;
      else from.insertBefore(old, place);
      morph(old, row);
    }
  }
  for (const row of olds.values()) row.remove();
}

function showPill(list, news) {
  const table = list.closest("table");
  let pill = table.parentElement.querySelector(".pill");
  if (!news) return pill?.remove();
  if (!pill) {
    pill = document.createElement("button");
    pill.type = "button";
    pill.className = "pill";
    pill.addEventListener("click", () => { pill.remove(); all("input:checked", list).forEach((box) => { box.checked = false; }); pill.blur(); list.removeAttribute("data-hold"); dirty.add("jobs"); refresh().then(() => list.setAttribute("data-hold", "")); });
    table.before(pill);
  }
  put(pill, `Show ${news} new`);
}

// Live

const live = byId("live");
const dirty = new Set();
let isBusy = false;
let isPaused = false;
let source = null;
let last = 0;

function say(state) {
  if (!live) return;
  live.className = "badge " + { live: "good", reconnecting: "warn", paused: "calm" }[state];
  put(live, { live: "Live", reconnecting: "Reconnecting", paused: "Updates paused" }[state]);
}

function patch(doc, topics) {
  for (const region of all("[data-live]")) {
    const now = region.id && doc.getElementById(region.id);
    // The first steps are done: there is another page now.
    if (!now && "untilGone" in region.dataset) return void location.reload();
    if (!now || !region.dataset.live.split(" ").some((topic) => topics.has(topic))) continue;
    const log = region.querySelector("[data-follow]");
    const isAtEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    morph(region, now);
    const follows = region.querySelector("[data-follow]");
    if (follows && (isAtEnd || !log)) follows.scrollTop = follows.scrollHeight;
  }
  enhance();
  showTimes();
}

async function refresh() {
  if (isBusy || isPaused || brush || document.hidden || !dirty.size) return;
  const wait = last + 1000 - Date.now();
  if (wait > 0) return void setTimeout(refresh, wait);
  isBusy = true;
  last = Date.now();
  const topics = new Set(dirty);
  dirty.clear();
  const text = await read();
  isBusy = false;
  if (text === null) topics.forEach((topic) => dirty.add(topic));
  if (dirty.size) setTimeout(refresh, 1000);
  if (text !== null) patch(new DOMParser().parseFromString(text, "text/html"), topics);
}

// This page as it is now, or null if that cannot be found out.
async function read() {
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.redirected || answer.status === 401) location.reload();
    return answer.ok ? await answer.text() : null;
  } catch {
    return null;
  }
}

function connect() {
  if (!live || source) return;
  source = new EventSource(live.dataset.events);
  let isFirst = true;
  source.onopen = () => {
    say("live");
    // What happened while nobody listened is not told again.
    if (!isFirst || last) { all("[data-live]").forEach((region) => region.dataset.live.split(" ").forEach((topic) => dirty.add(topic))); refresh(); }
    isFirst = false;
  };
  source.onerror = () => {
    say("reconnecting");
    // A server that refuses ends the stream for good; it is asked again.
    if (source?.readyState === EventSource.CLOSED) { disconnect(); setTimeout(() => { if (!isPaused && !document.hidden) connect(); }, 2000); }
  };
  source.addEventListener("changed", (event) => { event.data.split(" ").forEach((topic) => dirty.add(topic)); refresh(); });
}

function disconnect() {
  source?.close();
  source = null;
}

function switchPause() {
  isPaused = !isPaused;
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(isPaused));
  put(button, isPaused ? "Resume updates" : "Pause updates");
  if (isPaused) { disconnect(); say("paused"); }
  else { last ||= 1; connect(); }
}

// Browsers allow few connections to one host; a tab that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else if (!isPaused) { last ||= 1; connect(); }
});
// So does a page that is left, which may be kept to come back to.
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => { if (event.persisted && !isPaused) connect(); });

// Buttons that only a script can serve

async function copy(button) {
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    // Over plain HTTP there is no clipboard: mark the text for the keyboard.
    getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    said = "Selected: press Ctrl+C or ⌘C";
  }
  put(button, said);
  setTimeout(() => put(button, "Copy"), 1500);
}

function enhance() {
  for (const button of all("button[data-copy][hidden]")) { button.hidden = false; button.addEventListener("click", () => copy(button)); }
}

for (const [id, act] of [["theme", switchTheme], ["zone", switchZone], ["pause", switchPause], ["keys", () => byId("shortcuts").showModal()]]) {
  const button = byId(id);
  if (button) { button.hidden = false; button.addEventListener("click", act); }
}

const every = document.querySelector("[data-all]");
if (every) {
  every.hidden = false;
  document.querySelector("[data-all-label]").hidden = false;
  const label = document.querySelector("[data-selected]");
  const { all: name } = every.dataset;
  const hint = label.textContent;
  const boxes = () => all(`input[name="${name}"]`);
  const tell = () => { const count = boxes().filter((box) => box.checked).length; put(label, count ? `${count} selected` : hint); };
  every.addEventListener("change", () => { boxes().forEach((box) => { box.checked = every.checked; }); tell(); });
  document.addEventListener("change", (event) => { if (event.target.name === name) tell(); });
}

// Drawing over a strip of time leads to what was drawn over. Without a script its links and its form do.

let brush = null;
const isFar = () => brush && Math.abs(brush.x - brush.start) > 4;
// Where a pointer is within the strip, between 0 and 1.
const share = (box, x) => Math.min(1, Math.max(0, (x - box.left) / box.width));

function endBrush() {
  brush?.mark.remove();
  brush = null;
  refresh();
}

document.addEventListener("pointerdown", (event) => {
  const strip = event.target.closest("[data-brush]");
  if (!strip || event.button !== 0) return;
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  mark.setAttribute("class", "brush");
  mark.setAttribute("height", "100%");
  brush = { strip, mark, box: strip.getBoundingClientRect(), start: event.clientX, x: event.clientX };
});
document.addEventListener("pointermove", (event) => {
  if (!brush) return;
  brush.x = event.clientX;
  if (!isFar()) return;
  const [from, to] = [brush.start, brush.x].map((x) => share(brush.box, x) * 1000).sort((a, b) => a - b);
  brush.mark.setAttribute("x", from);
  brush.mark.setAttribute("width", to - from);
  brush.strip.querySelector("svg").append(brush.mark);
});
document.addEventListener("pointerup", () => {
  if (!isFar()) return endBrush();
  const { strip, box, start, x } = brush;
  const [first, last] = [strip.dataset.from, strip.dataset.to].map((at) => Date.parse(at));
  const [from, to] = [start, x].map((x) => first + share(box, x) * (last - first)).sort((a, b) => a - b);
  const at = (ms) => encodeURIComponent(new Date(ms).toISOString().replace(/\.\d+/, ""));
  // The click that follows must not follow a link.
  strip.addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
  endBrush();
  location.assign(`${strip.dataset.brush}&from=${at(from)}&to=${at(Math.max(to, from + 1000))}`);
});
document.addEventListener("pointercancel", endBrush);
document.addEventListener("dragstart", (event) => { if (brush) event.preventDefault(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && brush) endBrush(); });

let isAfterG = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog[open]")) return;
  const { key } = event;
  if (isAfterG) {
    isAfterG = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (key === "g") { isAfterG = true; setTimeout(() => { isAfterG = false; }, 1500); }
  else if (key === "/") { event.preventDefault(); (document.querySelector("[data-search]") ?? document.querySelector('nav a[data-key="j"]')).focus(); }
  else if (key === "r") switchPause();
  else if (key === "t") switchTheme();
  else if (key === "z") switchZone();
  else if (key === "?") byId("shortcuts")?.showModal();
});

enhance();
showTimes();
setInterval(() => { if (!document.hidden && !isPaused) showTimes(); }, 1000);
for (const log of all("[data-follow]")) log.scrollTop = log.scrollHeight;
connect();
