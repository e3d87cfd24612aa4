// A session may end while a page is open. Forms are sent only after the server has confirmed the
// session. Otherwise the page says so, the form keeps its text, and signing in in another tab lets
// the visitor continue here.
const WHERE = "/account?part=session";

export function mount(body) {
  const box = document.createElement("div");
  Object.assign(box, { className: "toast connection", hidden: true });
  box.setAttribute("role", "alert");
  body.append(box);
  let over = false;

  function say(words, title, address) {
    over = true;
    const link = document.createElement("a");
    Object.assign(link, { href: address, textContent: title });
    if (address.startsWith("/sign-in")) link.target = "_blank";
    box.replaceChildren(words, link);
    box.hidden = false;
  }

  const end = () =>
    say(
      "You are signed out. Your text is still here.",
      "Sign in again, in a new tab",
      "/sign-in?next=/account",
    );

  function goOn(fresh) {
    for (const each of document.querySelectorAll("[name=csrf]")) each.value = fresh.value;
    if (!over) return;
    over = false;
    box.textContent = "Signed in again.";
    setTimeout(() => (box.hidden = !over), 3000);
    dispatchEvent(new Event("tally:back"));
  }

  // True if the server would accept the form with the current token of the session.
  async function ask() {
    try {
      const answer = await fetch(WHERE, { cache: "no-store" });
      if (!answer.ok) return answer.status !== 401; // which is said already
      const holder = document.createElement("template");
      holder.innerHTML = await answer.text();
      const fresh = holder.content.querySelector("[name=csrf]");
      const same = fresh?.dataset.who === body.dataset.session;
      if (same) goOn(fresh);
      else say("Someone else has signed in.", "Reload the page", location.href);
      return same;
    } catch {
      return false; // the page says by itself that the server does not answer
    }
  }

  addEventListener("tally:signed-out", end);
  for (const name of ["focus", "visibilitychange"]) {
    addEventListener(name, () => over && !document.hidden && ask());
  }
  document.addEventListener("submit", async (event) => {
    const { target, submitter } = event;
    const ours = target.getAttribute("method") === "post" && target.querySelector("[name=csrf]");
    if (event.defaultPrevented || !ours || target.dataset.asked === "yes") return;
    event.preventDefault();
    if (target.dataset.asked) return; // it is under way
    target.dataset.asked = "now";
    if (await ask()) {
      target.dataset.asked = "yes";
      target.requestSubmit(submitter);
    }
    delete target.dataset.asked;
  });
}
