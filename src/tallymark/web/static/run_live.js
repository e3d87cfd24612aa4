// A running run: each event carries the server's HTML of what changed. When the run has ended, the
// page is fetched once more; when the server is unreachable, reconnect until it is back.
const CALM = 700;
const LONGEST = 15_000;

export function mount(box) {
  const { events, part, cases, whole } = box.dataset;
  let wait = 1_000;
  let over = false; // for who may not see it any more
  let busy = false;
  let again = false;

  function say(words) {
    const word = box.querySelector("[data-live]");
    if (!word) return;
    word.classList.add("off");
    word.textContent = words;
  }

  async function get(address) {
    const answer = await fetch(address);
    over = answer.status === 401 || answer.status === 403 || answer.status === 404;
    if (!answer.ok) throw new Error(answer.status);
    return answer.text();
  }

  async function fill(target, address, always = false) {
    const text = await get(address);
    if (target && (always || !target.contains(document.activeElement))) target.innerHTML = text;
  }

  async function update() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      await fill(box, part);
      await fill(document.getElementById("run-cases"), cases);
    } catch {
      say(over ? "Signed out" : "Reconnecting");
    }
    setTimeout(() => {
      busy = false;
      if (again) update();
      again = false;
    }, CALM);
  }

  async function finish() {
    try {
      await fill(document.getElementById("main"), whole, true);
    } catch {
      setTimeout(finish, wait);
    }
  }

  function listen() {
    const source = new EventSource(events); // which begins with how far the run is
    source.addEventListener("run", (event) => {
      const { status } = JSON.parse(event.data);
      if (status === "queued" || status === "running") {
        wait = 1_000;
        update();
        return;
      }
      source.close();
      if (status !== "interrupted") return finish();
      update(); // nobody works on it now, but somebody may go on
      later();
    });
    source.onerror = async () => {
      say("Reconnecting");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      await update(); // it tells whether this may still be seen
      if (!over) later();
    };
  }

  function later() {
    setTimeout(listen, wait);
    wait = Math.min(wait * 2, LONGEST);
  }
  addEventListener("tally:back", () => over && location.reload());
  listen();
}
