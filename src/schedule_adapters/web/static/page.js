"use strict";
// One session on one page. What is shown is a projection of the session's log: a first picture
// (snapshot), then items, each named by its place in the log. All text becomes text nodes.

const $ = (id) => document.getElementById(id);
const session = document.body.dataset.session;
const query = "?session=" + encodeURIComponent(session);
const page = {
  csrf: document.body.dataset.csrf,
  log: null, // the log that seq speaks of
  seq: null, // the last item that arrived
  lowest: Infinity, // the first item that is shown
  reminders: new Map(),
  state: { turn: null, tool: null, waiting: [], trouble: null, saved: true, failure: null },
  ahead: 0, // the server's clock minus ours, ms
  fresh: false, // whether what arrives is news, rather than history
};
const now = () => Date.now() + page.ahead;

// Making elements.

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "text") element.textContent = value;
    else if (name === "on") element.addEventListener("click", value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// Times: the viewer's own zone, UTC on hover.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const dayAndYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

function localTime(at) {
  const date = new Date(at), today = new Date(now());
  const days = Math.round((new Date(date).setHours(0, 0, 0, 0) - new Date(today).setHours(0, 0, 0, 0)) / 864e5);
  if (days === 0) return (at % 60000 ? clockWithSeconds : clock).format(date);
  if (days === 1) return "tomorrow, " + clock.format(date);
  return (date.getFullYear() === today.getFullYear() ? day : dayAndYear).format(date) + ", " + clock.format(date);
}

function timeElement(at) {
  const utc = new Date(at).toISOString();
  return make("time", { datetime: utc, title: utc.replace("T", " ").slice(0, 19) + " UTC", text: localTime(at) });
}

function span(milliseconds, isBrief) {
  const s = Math.floor(Math.abs(milliseconds) / 1000);
  const pad = (n) => String(n).padStart(2, "0");
  if (isBrief && s >= 60) return s < 3600 ? Math.floor(s / 60) + " min" : s < 86400 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " d";
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + pad(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + pad(Math.floor((s % 3600) / 60)) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

// The conversation. Entries stand in the order in which their messages were queued: what the
// user said at 2 * seq, the answer to it at 2 * seq + 1.

const entries = $("entries"), scroller = $("scroller");

let atBottom = true;

function toBottom() {
  scroller.scrollTop = scroller.scrollHeight;
}

function keepingBottom(change) {
  const follow = atBottom;
  change();
  if (follow) toBottom();
}

function entry(key, kind) {
  let after = entries.lastElementChild;
  while (after && Number(after.dataset.key) > key) after = after.previousElementSibling;
  if (after && Number(after.dataset.key) === key) return after;
  const made = make("li", { class: kind, "data-key": key });
  if (after) after.after(made);
  else entries.prepend(made);
  $("welcome").hidden = true;
  return made;
}

function showSaid(seq, text, at) {
  const item = entry(2 * seq, "said");
  item.replaceChildren(make("p", { class: "text", dir: "auto", text }), make("span", { class: "foot" }, timeElement(at)));
  showWaiting();
}

function bell() {
  const icon = draw("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" });
  icon.append(draw("path", { d: "M8 1a4.5 4.5 0 0 0-4.5 4.5c0 4-1.7 5-1.7 6h12.4c0-1-1.7-2-1.7-6A4.5 4.5 0 0 0 8 1Zm-1.8 12a1.8 1.8 0 0 0 3.6 0Z", fill: "currentColor" }));
  return icon;
}

function mark(reminder) {
  const late = (reminder.dispatched || reminder.due) - reminder.due;
  return make("p", { class: "mark" }, bell(), make("span", { text: "Reminder" }),
    make("span", { class: "faint" }, "due ", timeElement(reminder.due), late >= 2000 ? ", " + span(late, true) + " late" : ""),
    make("bdi", { class: "faint", text: reminder.id }));
}

function answer(input, reminder) {
  const item = entry(2 * input + 1, "answer" + (reminder ? " came" : ""));
  if (!item.firstChild) item.append(...[reminder && mark(reminder), make("p", { class: "text", dir: "auto" })].filter(Boolean));
  return item;
}

const NOTES = { cancelled: "Stopped.", failed: "This turn failed.", interrupted: "The server ended in the middle of this turn." };

function showEnded(ended) {
  const item = answer(ended.input, ended.reminder);
  const note = NOTES[ended.outcome];
  const failed = item.querySelector(".note");
  item.classList.remove("open");
  item.querySelector(".text").textContent = ended.text;
  item.querySelector(".quote")?.remove();
  if (note && ended.reminder) item.append(make("blockquote", { class: "text quote", dir: "auto", text: ended.reminder.prompt }));
  if (note && !failed) item.append(make("p", { class: "note" + (ended.outcome === "failed" ? " bad" : ""), text: note }));
  if (page.fresh) announce(ended);
}

function announce(ended) {
  const from = ended.reminder ? "Reminder: " : "Assistant: ";
  $("announcer").append(make("p", { text: from + (ended.text || NOTES[ended.outcome] || "") }));
  while ($("announcer").childElementCount > 3) $("announcer").firstChild.remove();
  if (document.hidden) document.title = "\u25cf " + session;
}

function showWaiting() {
  for (const item of entries.querySelectorAll(".waits")) item.classList.remove("waits");
  for (const seq of page.state.waiting) entries.querySelector(`[data-key="${2 * seq}"]`)?.classList.add("waits");
}

// Items of the log.

function take(item) {
  if (page.seq !== null && item.seq <= page.seq) return;
  page.seq = item.seq;
  if (item.kind === "said" || item.kind === "ended") showEntry(item);
  else if (item.kind === "created") page.reminders.set(item.reminder.id, item.reminder);
  else if (page.reminders.has(item.id)) page.reminders.get(item.id)[item.kind] = item.at;
  if (item.kind !== "said" && item.kind !== "ended") showReminders();
}

function showEntry(item) {
  page.lowest = Math.min(page.lowest, item.seq);
  if (item.kind === "said") showSaid(item.seq, item.text, item.at);
  else showEnded(item);
}

function reset(snapshot) {
  page.fresh = false;
  Object.assign(page, { log: snapshot.log, seq: snapshot.seq, lowest: Infinity, ahead: snapshot.now - Date.now() });
  page.reminders = new Map(snapshot.reminders.map((each) => [each.id, each]));
  entries.replaceChildren();
  keepingBottom(() => snapshot.entries.forEach(showEntry));
  $("earlier").hidden = !snapshot.earlier;
  $("welcome").hidden = snapshot.entries.length > 0;
  showState(snapshot.state);
  showReminders();
  toBottom();
  page.fresh = true;
}

function showState(state) {
  page.state = state;
  for (const item of entries.querySelectorAll(".open")) {
    if (Number(item.dataset.key) !== 2 * state.turn + 1 || state.turn === null) item.classList.remove("open");
  }
  showWaiting();
  if (state.failure) {
    const item = answer(state.failure.input, null);
    item.querySelector(".note")?.remove();
    item.append(make("p", { class: "note bad", dir: "auto", text: state.failure.words }));
  }
  $("stop").hidden = state.turn === null;
  showWorking();
  $("trouble").hidden = !state.trouble;
  $("trouble").textContent = state.trouble ? "Faulted: " + state.trouble + "." : "";
  showLink();
  tick();
}

function showWorking() {
  const { turn, tool } = page.state;
  const said = turn !== null && entries.querySelector(`[data-key="${2 * turn + 1}"] .text`)?.textContent;
  $("working").hidden = turn === null || (Boolean(said) && !tool);
  $("working").textContent = tool ? "Using " + tool + "\u2026" : "Working\u2026";
}

// Reminders.

const cards = new Map(); // id -> the card of a pending reminder

function pending() {
  const waiting = [...page.reminders.values()].filter((each) => each.dispatched === null && each.deleted === null);
  return waiting.sort((a, b) => a.due - b.due);
}

function showReminders() {
  const list = pending(), ids = new Set(list.map((each) => each.id));
  for (const [id, card] of cards) if (!ids.has(id)) removeCard(id, card);
  list.forEach((each, index) => {
    if (!cards.has(each.id)) cards.set(each.id, newCard(each));
    const card = cards.get(each.id);
    if ($("pending").children[index] !== card) $("pending").insertBefore(card, $("pending").children[index] || null);
  });
  $("none").hidden = list.length > 0;
  const count = document.querySelector(".sessions [aria-current] .count");
  if (count) count.textContent = list.length || "";
  tick();
}

function removeCard(id, card) {
  const held = card.contains(document.activeElement);
  const next = card.nextElementSibling || card.previousElementSibling;
  card.remove();
  cards.delete(id);
  if (held) (next ? next.querySelector(".delete") : $("text")).focus();
}

function newCard(reminder) {
  const long = reminder.prompt.length > 120;
  const text = make(long ? "button" : "p", { class: "text", dir: "auto", text: reminder.prompt });
  if (long) {
    text.setAttribute("aria-expanded", "false");
    text.addEventListener("click", () => text.setAttribute("aria-expanded", text.getAttribute("aria-expanded") !== "true"));
  }
  const name = "Delete the reminder: " + reminder.prompt.slice(0, 80);
  const remove = make("button", { class: "delete", type: "button", "aria-label": name, title: "Delete", text: "\u00d7", on: () => deleteReminder(reminder.id) });
  return make("li", { "data-id": reminder.id }, text, remove,
    make("p", { class: "when" }, make("b"), timeElement(reminder.due), make("bdi", { text: reminder.id })),
    make("div", { class: "bar", "aria-hidden": "true" }, make("i")));
}

async function deleteReminder(id) {
  try {
    const done = await post("/delete", { id });
    if (done.deleted || done.code === "schedule_not_found") problem(null);
    else problem(done.message);
  } catch (error) {
    problem("Not deleted: " + error.message);
  }
}

function wording(reminder, isBrief) {
  const ahead = reminder.due - now();
  if (page.state.trouble) return ahead > 0 ? "held back" : "not delivered, " + span(ahead) + " late";
  if (ahead > 0) return "in " + span(ahead + 999, isBrief);
  const late = ahead <= -2000 ? ", " + span(ahead) + " late" : "";
  return page.state.turn === null ? "due now" + late : "due now" + late + ", waits for the turn";
}

function tick() {
  const list = pending();
  for (const reminder of list) {
    const card = cards.get(reminder.id);
    if (!card) continue;
    const words = wording(reminder), label = card.querySelector(".when b");
    if (label.textContent !== words) label.textContent = words;
    card.classList.toggle("late", reminder.due <= now());
    const part = (now() - reminder.created) / Math.max(reminder.due - reminder.created, 1);
    card.querySelector(".bar i").style.width = (100 * Math.min(Math.max(part, 0), 1)).toFixed(1) + "%";
  }
  $("glance").textContent = list.length === 0 ? "none pending"
    : list.length === 1 ? "next " + wording(list[0], true) : list.length + " pending, next " + wording(list[0], true);
  showTimeline(list);
}

// The timeline: how far from now things are, near ones magnified.

const LANES = 8, LANE = 15, FLAT_MS = 5000;
const MARKS = [[6e4, "1 min"], [6e5, "10 min"], [36e5, "1 h"], [864e5, "1 d"], [6048e5, "1 w"], [2592e6, "1 mo"], [31536e6, "1 y"]];
const scale = (distance) => Math.sign(distance) * Math.log10(1 + Math.abs(distance) / FLAT_MS);

function lanes(list) {
  const end = (each) => each.dispatched || each.deleted;
  const over = [...page.reminders.values()].filter(end).sort((a, b) => end(a) - end(b));
  const ahead = list.slice(0, Math.max(5, LANES - over.length));
  const behind = over.slice(Math.max(0, over.length - (LANES - ahead.length)));
  return [...behind, ...ahead];
}

function showTimeline(list) {
  const svg = $("timeline"), shown = lanes(list), at = now();
  $("timeline").closest("figure").hidden = shown.length === 0;
  if (shown.length === 0 || !$("panel").open) return;
  const width = svg.clientWidth || 290, height = shown.length * LANE + 24, margin = 6;
  const ends = shown.flatMap((each) => [each.created, each.due, each.dispatched || each.deleted || each.due]).map((t) => scale(t - at));
  const past = Math.max(scale(6e4), -Math.min(...ends)), future = Math.max(scale(6e4), ...ends);
  const x = (t) => margin + ((scale(t - at) + past) / (past + future)) * (width - 2 * margin);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.height = height + "px";
  const base = height - 18, parts = [draw("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base })];
  const taken = [x(at)];
  for (const [distance, name] of MARKS) for (const side of [1, -1]) {
    const place = x(at + side * distance);
    if (place < 14 || place > width - 14 || taken.some((other) => Math.abs(other - place) < 34)) continue;
    taken.push(place);
    parts.push(draw("line", { class: "axis", x1: place, x2: place, y1: 0, y2: base + 3 }));
    parts.push(draw("text", { x: place, y: height - 4, "text-anchor": "middle" }, (side < 0 ? "\u2212" : "") + name));
  }
  parts.push(draw("line", { class: "now", x1: x(at), x2: x(at), y1: 0, y2: base + 3 }));
  parts.push(draw("text", { class: "now-text", x: x(at), y: height - 4, "text-anchor": "middle" }, "now"));
  shown.forEach((each, index) => parts.push(lane(each, x, index * LANE + LANE / 2, at)));
  svg.replaceChildren(...parts);
  const came = [...page.reminders.values()].filter((each) => each.dispatched).length;
  const next = list.length ? ", next " + wording(list[0]) : "";
  $("timeline-text").textContent = `Timeline: ${list.length} pending${next}; ${came} came back.`;
}

function lane(each, x, y, at) {
  const end = each.dispatched || each.deleted, isLate = !each.deleted && (end || at) > each.due;
  const group = draw("g", { class: (end ? "over" : "") + (isLate ? " late" : "") });
  const stop = each.deleted ? Math.min(each.deleted, each.due) : each.due;
  group.append(draw("title", {}, each.prompt.slice(0, 80)));
  group.append(draw("line", { class: "span", x1: x(each.created), x2: x(stop), y1: y, y2: y }));
  if (isLate) group.append(draw("line", { class: "wait", x1: x(each.due), x2: x(end || at), y1: y, y2: y }));
  group.append(draw("circle", { class: "made", cx: x(each.created), cy: y, r: 1.5 }));
  if (each.deleted) {
    const cx = x(each.deleted);
    group.append(draw("path", { class: "cross", d: `M${cx - 3} ${y - 3}l6 6m0-6l-6 6` }));
  } else if (each.dispatched) group.append(draw("circle", { class: "came", cx: x(each.dispatched), cy: y, r: 4 }));
  else group.append(draw("circle", { class: "target", cx: x(each.due), cy: y, r: 4 }));
  return group;
}

// The stream.

let source = null, heard = Date.now(), failures = 0, lost = false;

function connect() {
  if (source) source.close();
  heard = Date.now();
  const after = page.seq === null ? "" : `&after=${page.seq}&log=${page.log}`;
  const stream = source = new EventSource("/events" + query + after);
  const on = (name, action) => stream.addEventListener(name, (event) => {
    if (stream !== source) return;
    heard = Date.now();
    keepingBottom(() => action(JSON.parse(event.data)));
  });
  on("snapshot", reset);
  on("item", take);
  on("state", showState);
  on("beat", (beat) => { page.ahead = beat.now - Date.now(); });
  on("live", (live) => {
    const item = answer(live.input, live.reminder);
    item.classList.add("open");
    item.querySelector(".text").textContent = "";
    showWorking();
  });
  on("more", (more) => {
    answer(more.input, null).querySelector(".text").append(more.text);
    showWorking();
  });
  stream.onopen = () => { failures = 0; lost = false; showLink(); };
  stream.onerror = () => {
    if (stream !== source) return;
    lost = true;
    showLink();
    // A refused stream is not tried again by the browser itself.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => { if (stream === source) connect(); }, Math.min(1000 * 2 ** failures++, 10000));
  };
}

function showLink() {
  const words = !navigator.onLine ? "You are offline. What is due comes as soon as you are back."
    : lost ? "The connection is lost; trying again\u2026"
    : !page.state.saved ? "The log cannot be written: the last messages are not saved yet." : "";
  $("link").hidden = !words;
  $("link").textContent = words;
}

async function post(path, body, isSecond) {
  let response;
  try {
    response = await fetch(path + query, {
      method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(20000),
      headers: { "Content-Type": "application/json", "X-CSRF-Token": page.csrf },
    });
  } catch {
    throw new Error("there is no connection");
  }
  const answered = await response.json().catch(() => ({ message: "the server could not answer" }));
  if (response.ok) return answered;
  if (answered.code === "csrf_token" && !isSecond) { // the server was started anew
    page.csrf = (await (await fetch("/hello")).json()).csrf;
    return post(path, body, true);
  }
  throw Object.assign(new Error(answered.message), { code: answered.code });
}

// The composer.

const text = $("text");
let sending = false, unsent = { text: null, key: null };
const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

function problem(words) {
  $("problem").hidden = !words;
  $("problem").textContent = words || "";
}

async function send() {
  const said = text.value.trim();
  if (!said || sending) return;
  // The same text after a lost answer is the same message: it must not be queued twice.
  if (unsent.text !== said) unsent = { text: said, key: crypto.getRandomValues(new Uint32Array(4)).join("-") };
  const { key } = unsent;
  sending = true;
  try {
    const sent = await post("/prompt", { text: said, key, timeZone: zone() }).catch((error) => {
      if (error.code !== "invalid_time_zone") throw error;
      $("zone").textContent = "no known zone: you will be asked";
      return post("/prompt", { text: said, key });
    });
    unsent = { text: null, key: null };
    if (text.value.trim() === said) text.value = "";
    fit();
    problem(null);
    if (!entries.querySelector(`[data-key="${2 * sent.seq}"]`)) showSaid(sent.seq, said, now());
    toBottom();
  } catch (error) {
    problem("Not sent: " + error.message + ". Enter tries again.");
  } finally {
    sending = false;
  }
}

function stop() {
  post("/stop", {}).catch((error) => problem(error.message));
  text.focus();
}

function fit() {
  if (CSS.supports("field-sizing", "content")) return;
  text.style.height = "auto";
  text.style.height = text.scrollHeight + "px";
}

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); text.focus(); });
text.addEventListener("input", fit);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !event.isComposing && page.state.turn !== null) stop(); });
$("stop").addEventListener("click", stop);
for (const example of document.querySelectorAll(".examples button")) {
  example.addEventListener("click", () => { text.value = example.textContent; fit(); text.focus(); });
}
$("new-session").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = $("new-name").value.trim();
  if (name) location.assign("/?session=" + encodeURIComponent(name));
});
$("earlier").addEventListener("click", async () => {
  try {
    const older = await (await fetch(`/earlier${query}&before=${page.lowest}`)).json();
    const height = scroller.scrollHeight;
    page.fresh = false;
    older.entries.forEach(showEntry);
    page.fresh = true;
    $("earlier").hidden = !older.earlier;
    scroller.scrollTop += scroller.scrollHeight - height;
    if (!older.earlier) scroller.focus();
  } catch {
    problem("Earlier messages could not be fetched.");
  }
});

// Begin.

const wide = matchMedia("(min-width: 68.01rem)");
const unfold = () => { $("panel").open = $("switcher").open = wide.matches; tick(); };
wide.addEventListener("change", unfold);
$("panel").addEventListener("toggle", tick);
for (const part of [$("panel"), $("switcher")]) {
  part.querySelector("summary").addEventListener("click", (event) => { if (wide.matches) event.preventDefault(); });
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) document.title = session; });
addEventListener("offline", () => { if (source) source.close(); showLink(); });
addEventListener("online", () => { connect(); showLink(); });
addEventListener("resize", tick);
scroller.addEventListener("scroll", () => { atBottom = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80; });
new ResizeObserver(() => { if (atBottom) toBottom(); }).observe(scroller);
setInterval(() => {
  tick();
  if (navigator.onLine && Date.now() - heard > 40000) connect();
}, 1000);
$("zone").textContent = zone();
const first = JSON.parse($("snapshot").textContent);
if (first) reset(first);
unfold();
connect();
