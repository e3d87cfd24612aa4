// A slow part of a page: fetched after the page has loaded, and again when the server is back.
export async function mount(element) {
  try {
    const answer = await fetch(element.dataset.part, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    element.innerHTML = await answer.text();
  } catch {
    const retry = document.createElement("a");
    Object.assign(retry, { href: location.href, textContent: "Try again" });
    const words = document.createElement("p");
    words.append("This part could not be loaded. ", retry);
    element.replaceChildren(words);
    addEventListener("tally:back", () => mount(element), { once: true });
  }
  element.removeAttribute("aria-busy");
}
