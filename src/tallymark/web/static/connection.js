// Connection state. All requests of scripts go through here. When one fails, the server is polled
// with backoff while the page shows how old it is. `tally:back` is dispatched when the server answers
// again, `tally:signed-out` when it refuses the session.
const WAITS_S = [1, 2, 4, 8, 15];
const ask = window.fetch.bind(window);
let box = null;
let timer = 0;
let tries = 0;
let since = null;
let leaving = false;

export function mount(body) {
  box = document.createElement("div");
  Object.assign(box, { className: "toast connection", hidden: true });
  box.setAttribute("role", "status");
  body.append(box);
  addEventListener("pagehide", () => (leaving = true));
  addEventListener("pageshow", () => (leaving = false));
  addEventListener("offline", lose);
  addEventListener("online", look);
}

async function look() {
  clearTimeout(timer);
  timer = 0;
  try {
    const answer = await ask("/healthz", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    find();
  } catch {
    lose();
  }
}

function lose() {
  if (leaving || timer) return;
  since ??= new Date();
  const wait = WAITS_S[Math.min(tries++, WAITS_S.length - 1)];
  timer = setTimeout(look, wait * 1000);
  const again = document.createElement("button");
  Object.assign(again, { className: "button bare", type: "button", textContent: "Try now" });
  again.addEventListener("click", look);
  const words = document.createElement("span");
  words.textContent = `No connection. Shown as of ${since.toISOString().slice(11, 16)} UTC; trying again in ${wait} s.`;
  box.replaceChildren(words, again);
  box.hidden = false;
}

function find() {
  const was = since;
  tries = 0;
  since = null;
  if (!was) return;
  box.textContent = "The server is back.";
  setTimeout(() => (box.hidden = since === null), 3000);
  dispatchEvent(new Event("tally:back"));
}

window.fetch = async (...asked) => {
  try {
    const answer = await ask(...asked);
    if (answer.status === 401) dispatchEvent(new Event("tally:signed-out"));
    return answer;
  } catch (error) {
    if (error.name !== "AbortError" && !leaving) look();
    throw error;
  }
};

window.EventSource = class extends EventSource {
  constructor(...asked) {
    super(...asked);
    this.addEventListener("error", () => leaving || timer || look());
    this.addEventListener("open", () => since && look());
  }
};
