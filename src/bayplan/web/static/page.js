// What the page does beyond reading: it stays up to date, and the heat map can be walked with the keyboard.
// Everything shown is made by the server: this fetches the same address again and takes over the parts marked
// with data-live, each at most once in so many milliseconds.

const status = document.getElementById("live");
const pause = document.getElementById("pause");
const cell = document.getElementById("cell");
const due = new Map();
// The server says something each five seconds: after so long without a word, it is gone.
const SILENCE = 20_000;
let paused = false;
let fetching = false;
let connected = null;
let heardAt = "";

function regions() {
  return [...document.querySelectorAll("[data-live]")];
}

function say(text, state) {
  status.textContent = text;
  status.dataset.state = state;
}

function tell() {
  if (connected === null) return;
  if (!connected) say(heardAt ? `not connected since ${heardAt}` : "not connected", "lost");
  else say(paused ? "paused" : "live", paused ? "paused" : "live");
}

function beingRead(region) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && region.contains(selection.anchorNode);
}

function keyed(region, key) {
  const found = (each) => each.dataset.key === key || each.getAttribute("href") === key;
  return [...region.querySelectorAll("[data-key], a")].find(found);
}

function takeOver(old, fresh) {
  const active = document.activeElement;
  const key = old.contains(active) ? active.dataset.key || active.getAttribute("href") : null;
  const square = old.querySelector(".heat > .on")?.title.split(": ")[0];
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  old.replaceChildren(...document.importNode(fresh, true).childNodes);
  old.querySelectorAll(".scroll").forEach((each, n) => { each.scrollLeft = scrolled[n] || 0; });
  if (key) keyed(old, key)?.focus({ preventScroll: true });
  const again = square && [...old.querySelectorAll(".heat > i")].find((each) => each.title.startsWith(`${square}: `));
  if (again) point(again);
}

async function fetched() {
  try {
    const patience = AbortSignal.timeout(SILENCE);
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: patience });
    return answer.ok ? await answer.text() : null;
  } catch {
    // The server is gone for a moment: the stream of events says so, and when it is back.
    return null;
  }
}

async function refresh() {
  if (paused || fetching || document.hidden) return;
  const now = performance.now();
  const wanted = regions().filter((region) => !beingRead(region) && now >= (due.get(region.id) || 0));
  if (!wanted.length) return;
  fetching = true;
  const text = await fetched();
  fetching = false;
  if (text === null || paused) return;
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const region of wanted) {
    const part = fresh.getElementById(region.id);
    due.set(region.id, performance.now() + Number(region.dataset.live));
    // A page without this part is another page, such as that of a cluster which is known now.
    if (!part) return location.reload();
    takeOver(region, part);
  }
}

let events = null;
let later = 0;
let again = 0;
let silence = 0;

function heard() {
  heardAt = new Date().toISOString().slice(11, 19);
  connected = true;
  listening();
  tell();
}

function listening() {
  clearTimeout(silence);
  silence = setTimeout(silent, SILENCE);
}

function silent() {
  events.close();
  lost();
}

function news() {
  heard();
  refresh();
  // What came while a part was fresh is shown when it may be taken over again.
  clearTimeout(later);
  later = setTimeout(refresh, 600);
}

function lost() {
  connected = false;
  tell();
  // A browser comes back by itself, except when it was turned away.
  if (events.readyState === EventSource.CLOSED) {
    clearTimeout(again);
    again = setTimeout(listen, 10_000);
  }
}

function listen() {
  events?.close();
  events = new EventSource("/api/events");
  listening();
  events.addEventListener("hello", news);
  events.addEventListener("decisions", news);
  events.addEventListener("tick", news);
  events.addEventListener("error", lost);
}

function hush() {
  clearTimeout(again);
  clearTimeout(silence);
  events?.close();
}

if (regions().length) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    tell();
    refresh();
  });
  listen();
  // A browser has few connections to one server: a page that nobody looks at holds none.
  document.addEventListener("visibilitychange", () => (document.hidden ? hush() : listen()));
  addEventListener("pagehide", hush);
  addEventListener("pageshow", (shown) => { if (shown.persisted) listen(); });
}

// A form that is marked so is sent when a choice is made.
for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// "/" goes to the first filter, as people are used to.
addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const first = document.querySelector(".filters input");
  if (first) {
    event.preventDefault();
    first.focus();
  }
});

function point(square) {
  document.querySelectorAll(".heat .on").forEach((each) => each.classList.remove("on"));
  square.classList.add("on");
  cell.textContent = square.title;
}

function next(heat, square, key) {
  const squares = [...heat.children];
  const at = squares.indexOf(square);
  const columns = squares.findIndex((each) => each.offsetTop > squares[0].offsetTop);
  const row = columns < 1 ? squares.length : columns;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row }[key];
  return at < 0 ? squares[0] : squares[at + step] || square;
}

if (cell) {
  cell.hidden = false;
  document.addEventListener("pointerover", (event) => {
    if (event.target.matches(".heat > i")) point(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches(".heat") || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    point(next(event.target, event.target.querySelector(".on"), event.key));
  });
}
