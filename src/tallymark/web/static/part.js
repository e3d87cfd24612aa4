// A piece of a page that takes longer than the rest: asked for when the page is there.
export async function mount(element) {
  try {
    const answer = await fetch(element.dataset.part, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    element.innerHTML = await answer.text();
    element.removeAttribute("aria-busy");
  } catch {
    const retry = document.createElement("a");
    Object.assign(retry, { href: element.dataset.part.replace(/[?&]part=[^&]*/, ""), textContent: "Try again" });
    const words = document.createElement("p");
    words.append("This part could not be loaded. ", retry);
    element.replaceChildren(words);
    element.removeAttribute("aria-busy");
  }
}
