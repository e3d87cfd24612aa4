// Live board. Events announce changes; the board is then fetched as a part of the page, which the
// server renders once for all visitors, and patched in by key.
const EVERY = 1000; // at most one reorder in so many ms; changes in between are joined
const SPREAD = 400; // all hear of a change at once, and should not all ask at once
const LAZILY = 10_000; // for what changes no row here
const MANY = 60; // rows
const WATCH = 60_000; // a connection that says nothing for so long is tried
const AGES = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [86_400, 3600, "h"],
  [2_592_000, 86_400, "d"],
];

export function mount(root) {
  const facts = root.dataset;
  const patcher = makePatcher(root);
  const dot = makeDot(root);
  const wait = () => dot.show("Waiting");
  const asker = makeAsker(showPart, wait, (status) => (status ? findOut() : lose()));
  let seq = facts.seq;
  let source = null;
  let failures = 0;
  let over = false;
  let retry = 0;
  let watch = 0;
  let next = 0;

  function showPart(part) {
    if (!part) return heard(); // nothing is new
    if (part.dataset.known !== facts.known) return end("Signed out");
    facts.frozen = part.dataset.frozen;
    seq = String(Math.max(Number(seq), Number(part.dataset.seq)));
    patcher.apply(part);
    askAt(part.dataset.changes);
    heard();
  }

  function heard() {
    failures = 0;
    dot.show(facts.frozen === "1" ? "Frozen" : "Live");
    clearTimeout(watch);
    watch = setTimeout(() => asker.soon(), WATCH * (1 + Math.random()));
  }

  function connect() {
    clearTimeout(retry);
    source?.close();
    if (over || document.hidden) return;
    source = new EventSource(facts.events + (Number(seq) ? `?after=${seq}` : ""));
    source.onopen = () => {
      if (failures) asker.soon();
      heard();
    };
    source.onerror = () => (source.readyState === EventSource.CLOSED ? findOut() : lose());
    source.addEventListener("board", (event) => {
      seq = event.lastEventId;
      heard();
      if (touches(JSON.parse(event.data))) asker.soon();
      else asker.soon(LAZILY);
    });
    source.addEventListener("reset", (event) => {
      seq = event.lastEventId;
      asker.soon();
    });
  }

  // True if a change moves a visible row. Without `was` the row was beyond the first hundred.
  function touches(change) {
    if (change.many || change.gone || change.acts || facts.me || patcher.isOwnOrder()) return true;
    const last = Number(facts.last);
    if (last > 100) return true;
    return (change.changed ?? []).some((each) => each.rank <= last || each.was <= last);
  }

  // The server is unreachable: keep the board and reconnect.
  function lose() {
    source?.close();
    if (over || document.hidden) return;
    failures += 1;
    dot.show(failures > 3 || !navigator.onLine ? "Offline" : "Reconnecting");
    clearTimeout(retry);
    retry = setTimeout(connect, Math.min(20_000, 700 * 2 ** failures) * (0.5 + Math.random() / 2));
  }

  // The server refuses the events: has the session ended?
  async function findOut() {
    try {
      const { status } = await fetch(facts.board, { cache: "no-store" });
      if (status === 401) end("Signed out");
      else if (status === 404) end("No longer visible");
      else lose();
    } catch {
      lose();
    }
  }

  function end(words) {
    over = true;
    source?.close();
    asker.stop();
    dot.show(words);
  }

  // Boards also open, freeze and close at scheduled times.
  function askAt(seconds) {
    clearTimeout(next);
    if (seconds && seconds < 1e6) next = setTimeout(() => asker.soon(), seconds * 1000 + 500);
  }

  addEventListener("board:ask", asker.now);
  addEventListener("online", connect);
  addEventListener("offline", lose);
  addEventListener("tally:back", () => over && location.reload()); // who was signed out is back
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return source?.close(); // browsers have few connections to a server
    connect();
    asker.soon();
  });
  setInterval(() => root.querySelectorAll("time").forEach(writeAge), 20_000);
  askAt(facts.changes);
  connect();
}

// Fetch the part: one request at a time, then only for the newest address.
function makeAsker(show, wait, fail) {
  let busy = null;
  let begun = 0;
  let again = false;
  let hurry = false;
  let timer = 0;
  let due = 0;
  let ready = 0;
  let pause = EVERY;
  let etag = ["", ""];
  let stopped = false;

  async function run() {
    clearTimeout(timer);
    timer = 0;
    if (stopped) return;
    busy = new AbortController();
    begun = performance.now();
    again = hurry = false;
    pause = EVERY;
    try {
      for (const name of ["board", "around"]) await ask(name);
      // A slow server is busy: wait ten times as long as its answer took.
      ready = performance.now() + Math.max(pause, 10 * (performance.now() - begun));
    } catch (error) {
      if (error.name !== "AbortError") fail(error.status);
    }
    busy = null;
    if (hurry) run();
    else if (again) soon();
  }

  async function ask(name) {
    const url = new URL(location);
    url.hash = "";
    url.searchParams.set("part", name);
    const me = document.querySelector("[data-me]").dataset.me;
    if (name === "board")
      url.searchParams.delete("around"); // the same for all, so made once
    else if (!me || document.querySelector("tr.me[data-key]")) return;
    else url.searchParams.set("around", me);
    const headers = name === "board" && etag[0] === url.href ? { "If-None-Match": etag[1] } : {};
    const answer = await fetch(url, { headers, signal: busy.signal, cache: "no-store" });
    const { status } = answer;
    if (status === 304) return show(null);
    if (status === 429 || status >= 500) {
      pause = 5000;
      again = true;
      return wait();
    }
    if (!answer.ok) throw Object.assign(new Error(), { status });
    if (name === "board") etag = [url.href, answer.headers.get("ETag")];
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    const part = holder.content.querySelector("[data-part]");
    if (part) show(part);
  }

  function soon(least = 0) {
    if (busy) return void (again = true);
    const at = Math.max(performance.now() + least, ready) + Math.random() * SPREAD;
    if (timer && due <= at) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(run, at - performance.now());
  }

  // Requests are not aborted: the server would finish them anyway and delay the next.
  function now() {
    hurry = true;
    if (!busy) run();
    else if (performance.now() - begun > 1000) busy.abort();
  }

  return { soon, now, stop: () => (stopped = true) };
}

function makeDot(root) {
  const dot = root.querySelector("[data-live]");
  const word = dot.querySelector("[data-live-word]");
  let since = new Date();
  return {
    show(words) {
      const well = words === "Live" || words === "Frozen";
      if (well) since = new Date();
      dot.hidden = false;
      dot.classList.toggle("off", !well);
      dot.classList.toggle("still", words === "Frozen");
      dot.dataset.live = words.toLowerCase();
      const text =
        well || words.endsWith("ing")
          ? words
          : `${words}, as of ${since.toISOString().slice(11, 19)} UTC`;
      if (word.textContent !== text) word.textContent = text;
      if (words === "Signed out" && !dot.querySelector("a")) {
        const link = dot.appendChild(document.createElement("a"));
        link.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
        link.textContent = "Sign in";
      }
    },
  };
}

// Replace the current part; lists by key, so that rows keep their focus and slide.
function makePatcher(root) {
  const sources = new WeakMap(); // what the server said of an element, without how long ago
  const opened = new Date();
  const firstRanks = new Map();
  const find = (name) => root.querySelector(`[data-patch="${name}"]`);
  const isOther = () => /[?&](formula|weights|config)=/.test(location.search);
  const isOwnOrder = () => isOther() || /[?&](q|sort|offset)=/.test(location.search);
  for (const each of root.querySelectorAll("[data-patch]:not([data-keyed]), [data-keyed] > *"))
    remember(each, each);
  if (!isOther()) noteRanks();
  markMe();

  function remember(element, source) {
    sources.set(
      element,
      source.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1").replace(/ class="me"/, ""),
    );
  }

  function apply(part) {
    const focus = noteFocus();
    const places = notePlaces();
    const wrong = part.querySelector("[data-wrong]");
    for (const fresh of part.querySelectorAll("[data-patch]")) {
      const name = fresh.dataset.patch;
      // Keep the last valid order while the formula is invalid.
      if (wrong && !["supposed", "mistakes", "facts", "notice"].includes(name)) continue;
      const old = find(name);
      if (old) patch(old, fresh);
    }
    const frame = root.querySelector("[data-frame]");
    if (frame && !wrong) frame.classList.toggle("whatif", isOther());
    if (!isOther()) noteRanks();
    markMe();
    const moved = slide(places);
    if (!isOther()) tell(moved);
    focus();
    dispatchEvent(new CustomEvent("board:shown", { detail: wrong?.dataset.wrong }));
  }

  function patch(old, fresh) {
    if (fresh.hasAttribute("data-keyed")) {
      old.hidden = fresh.hidden;
      patchList(old, fresh);
      return;
    }
    const before = sources.get(old);
    remember(old, fresh);
    if (before === sources.get(old)) return;
    sources.set(fresh, sources.get(old));
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((each, at) => (each.scrollLeft = scrolled[at] ?? 0));
    mountModules(fresh);
  }

  function patchList(list, fresh) {
    const known = new Map([...list.children].map((each) => [each.dataset.key, each]));
    let cursor = list.firstElementChild;
    for (const next of [...fresh.children]) {
      let row = known.get(next.dataset.key);
      known.delete(next.dataset.key);
      if (row) update(row, next);
      else remember((row = next), next);
      if (row === cursor) cursor = cursor.nextElementSibling;
      else list.insertBefore(row, cursor);
    }
    known.forEach((each) => each.remove());
  }

  function update(row, next) {
    const before = sources.get(row);
    remember(row, next);
    if (before === sources.get(row)) return;
    for (const { name, value } of next.attributes) row.setAttribute(name, value);
    changeChildren(row, next);
  }

  function notePlaces() {
    const rows = [...root.querySelectorAll("[data-keyed] > [data-key]")];
    return new Map(
      rows.map((each) => [each, { at: each.getBoundingClientRect(), rank: each.dataset.rank }]),
    );
  }

  function slide(places) {
    const moved = [];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const [time, ...easing] = getComputedStyle(root).getPropertyValue("--settle").trim().split(" ");
    const rows = [...root.querySelectorAll("[data-keyed] > [data-key]")];
    // Do not animate long what-if boards: it would delay the next key.
    if (isOther() && rows.length > MANY) return moved;
    const now = rows.map((each) => each.getBoundingClientRect());
    const isSeen = ({ top, bottom }) => bottom > 0 && top < innerHeight;
    const lit = []; // a colour that fades where nobody looks would cost as much as one that is seen
    rows.forEach((row, nth) => {
      const before = places.get(row);
      const seen = isSeen(now[nth]);
      if (before && row.dataset.rank !== before.rank) {
        moved.push([row, before.rank - row.dataset.rank]);
        if (seen) lit.push(row);
      }
      if (still || !before || !(seen || isSeen(before.at))) return;
      const [x, y] = [before.at.left - now[nth].left, before.at.top - now[nth].top];
      const frames = [{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }];
      if (x || y) row.animate(frames, { duration: parseFloat(time), easing: easing.join(" ") });
    });
    for (const row of lit) row.classList.add("just-moved");
    setTimeout(() => lit.forEach((row) => row.classList.remove("just-moved")), 1600);
    return moved;
  }

  // Distance of each row from its place when the page was opened.
  function noteRanks() {
    for (const row of root.querySelectorAll("tr[data-rank]")) {
      const { key, rank } = row.dataset;
      if (!firstRanks.has(key)) firstRanks.set(key, Number(rank));
      const by = firstRanks.get(key) - Number(rank);
      const cell = row.querySelector(".moved");
      if (!cell || (!by && !cell.firstChild)) continue;
      const mark = document.createElement("span");
      mark.className = `move ${by > 0 ? "up" : by < 0 ? "down" : "same"}`;
      mark.dataset.tip = `Since ${opened.toISOString().slice(11, 16)} UTC, when this page was opened`;
      const spoken = mark.appendChild(document.createElement("span"));
      spoken.className = "spoken";
      spoken.textContent = by > 0 ? "up " : by < 0 ? "down " : "same place";
      if (by) mark.append(Math.abs(by).toLocaleString("en"));
      cell.replaceChildren(mark);
    }
  }

  function markMe() {
    const { me } = root.dataset;
    const row = me ? root.querySelector(`tr[data-key="${CSS.escape(me)}"]`) : null;
    row?.classList.add("me");
    const around = find("around");
    if (!row || !around?.firstChild) return;
    around.replaceChildren(); // it stands on the board itself
    sources.delete(around);
  }

  // Announce the change for screen readers, and for the visitor's own row if scrolled away.
  function tell(moved) {
    const rows = moved.filter(([row]) => row.dataset.rank);
    if (!rows.length) return;
    const mine = rows.find(([row]) => row.classList.contains("me"));
    const [row, by] = mine ?? rows.find(([, up]) => up > 0) ?? rows[0];
    const name = row.querySelector(".name b, .name bdi")?.textContent ?? row.dataset.key;
    const words = ` moved ${by > 0 ? "up" : "down"} ${Math.abs(by)}, to place ${row.dataset.rank}`;
    document.querySelector("[data-told]")?.remove();
    const box = document.body.appendChild(document.createElement("div"));
    const { top, bottom } = row.getBoundingClientRect();
    box.className = mine && (bottom < 0 || top > innerHeight) ? "toast" : "spoken";
    box.dataset.told = "";
    box.role = "status";
    const text = box.appendChild(document.createElement("span"));
    text.appendChild(document.createElement("b")).textContent = name;
    text.append(words);
    if (box.className === "toast") {
      const link = box.appendChild(document.createElement("a"));
      Object.assign(link, { href: `#${row.id}`, textContent: "Show" });
    }
    setTimeout(() => box.remove(), 8000);
  }

  return { apply, isOwnOrder };
}

// Morph an element into another: unchanged parts are not laid out again.
function change(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (!old.attributes) return old.data === fresh.data || (old.data = fresh.data);
  if (old.dateTime && old.dateTime === fresh.dateTime) return; // how long ago is written here
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "aria-describedby") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  changeChildren(old, fresh);
}

function changeChildren(old, fresh) {
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((each, at) => (before[at] ? change(before[at], each) : old.append(each)));
  before.slice(after.length).forEach((each) => each.remove());
}

// Restore the focus, also in rows that were replaced.
function noteFocus() {
  const had = document.activeElement;
  const href = had?.getAttribute?.("href");
  return () => {
    if (document.activeElement === had) return;
    const again = had?.isConnected
      ? had
      : href && document.querySelector(`a[href="${CSS.escape(href)}"]`);
    again?.focus?.({ preventScroll: true });
  };
}

async function mountModules(element) {
  if (!element.querySelector("[data-module]")) return;
  const main = await import(document.querySelector("script[type=module]").src);
  main.mount(element);
}

function writeAge(element) {
  if (!/ ago$|^now$/.test(element.textContent)) return;
  const age = (Date.now() - Date.parse(element.dateTime)) / 1000;
  const step = AGES.find(([most]) => age < most);
  if (step) element.textContent = age < 5 ? "now" : `${Math.floor(age / step[1])} ${step[2]} ago`;
}
