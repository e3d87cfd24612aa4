// A run that goes on: each event brings the server's own HTML of what has changed. When the run has
// ended the whole page comes once more; when the server is gone, it is tried again until it is back.
const CALM = 700;
const LONGEST = 15_000;

export function mount(box) {
  const { events, part, cases, whole } = box.dataset;
  let wait = 1_000;
  let busy = false;
  let again = false;

  function say(connected) {
    const word = box.querySelector("[data-live]");
    if (!word) return;
    word.classList.toggle("off", !connected);
    word.textContent = connected ? "Running" : "Reconnecting";
  }

  async function fill(target, address, always = false) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
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
      say(false);
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
    const source = new EventSource(events);
    source.addEventListener("run", (event) => {
      wait = 1_000;
      const { status } = JSON.parse(event.data);
      if (status === "queued" || status === "running") {
        update();
        return;
      }
      source.close();
      finish();
    });
    source.onerror = () => {
      say(false);
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      setTimeout(listen, wait);
      wait = Math.min(wait * 2, LONGEST);
    };
  }
  listen();
}
