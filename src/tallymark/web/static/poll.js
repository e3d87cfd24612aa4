// A part of a page that is fetched every two seconds while it is busy.
export function mount(element) {
  if (!("busy" in element.dataset)) return;
  const timer = setInterval(async () => {
    if (document.hidden || element.contains(document.activeElement)) return;
    try {
      const answer = await fetch(element.dataset.part, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const html = await answer.text();
      if (html !== element.innerHTML) element.innerHTML = html;
      if (!element.querySelector("[data-still]")) clearInterval(timer);
    } catch {
      // The server is unreachable: keep the part and try again.
    }
  }, 2000);
}
