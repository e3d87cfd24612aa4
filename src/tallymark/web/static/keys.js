// Keyboard shortcuts, listed on /keys, where they can be switched off (WCAG 2.1.4).
const PLACES = {
  h: "/",
  r: "/runs",
  c: "/challenges",
  a: "/agents",
  t: "/ratings",
  f: "/formula",
  d: "/docs",
  o: "/organiser",
};

export function mount(body) {
  if (isOff()) return;
  let leader = false;
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") event.target.blur?.();
    const typing = event.target.matches?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (leader) {
      leader = false;
      if (PLACES[event.key]) location.assign(PLACES[event.key]);
      return;
    }
    const act = ACTS[event.key];
    if (event.key === "g") leader = true;
    else if (act ? act(body) !== false : press(event.key)) event.preventDefault();
  });
}

function isOff() {
  return document.cookie.split("; ").includes("keys=off");
}

function press(key) {
  // Buttons and fields with a shortcut on this page only.
  const found = [...document.querySelectorAll("[data-key]")].find(
    (each) => each.dataset.key === key,
  );
  found?.matches("textarea") ? found.focus() : found?.click();
  return Boolean(found);
}

function click(selector) {
  const found = document.querySelector(selector);
  found?.click();
  return Boolean(found);
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")].map((row) =>
    row.querySelector("a[href]"),
  );
  if (!rows.length) return click(by > 0 ? "a[rel=next]" : "a[rel=prev]");
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))].focus();
  return true;
}

const ACTS = {
  "?": () => location.assign("/keys"),
  "/": () => {
    const own = document.querySelector("[data-filter]"); // of this page, before that of all pages
    const field = own?.checkVisibility() ? own : document.querySelector(".seek input");
    field?.focus();
    return Boolean(field);
  },
  j: () => step(1),
  k: () => step(-1),
  t: () => click("[data-theme-button]"),
  x: () => {
    const box = document.activeElement
      ?.closest("[data-row]")
      ?.querySelector("input[type=checkbox]");
    box?.click();
    return Boolean(box);
  },
  c: () => click("[data-compare]"),
  w: () => {
    const field = document.querySelector(
      "#what-if:not([hidden]) form:not([hidden]) input:not([type=hidden])",
    );
    field?.focus();
    return Boolean(field) || click("[data-what-if-open]");
  },
  y: () => {
    const url = new URL(location);
    const row = document.activeElement?.closest("[data-row][id]"); // one that was stepped to
    if (row) url.hash = row.id;
    navigator.clipboard
      ?.writeText(url)
      .then(() => say(row ? "Link to this row copied" : "Link copied"));
  },
};

function say(words) {
  const box = document.createElement("div");
  Object.assign(box, { className: "toast", textContent: words });
  box.setAttribute("role", "status");
  document.body.append(box);
  setTimeout(() => box.remove(), 2000);
}
