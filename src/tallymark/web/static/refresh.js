// A part of a page that is fetched every data-every seconds while the page is visible.
export function mount(element) {
  const load = async () => {
    if (document.hidden || element.contains(document.activeElement)) return;
    try {
      const answer = await fetch(element.dataset.part, { headers: { Accept: "text/html" } });
      if (answer.ok) element.innerHTML = await answer.text();
    } catch {
      // connection.js shows that the server does not answer
    }
  };
  setInterval(load, Number(element.dataset.every) * 1000);
  addEventListener("tally:back", load);
  document.addEventListener("visibilitychange", load);
}
