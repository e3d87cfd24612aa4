// Search the documentation while typing; without script the form does the same.
export function mount(input) {
  const found = document.getElementById("docs-found");
  let asked = 0;
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 120);
  });
  async function search() {
    const number = ++asked;
    const query = input.value.trim();
    if (!query) return show("");
    try {
      const answer = await fetch(`/docs/search?part=found&q=${encodeURIComponent(query)}`);
      if (answer.ok && number === asked) show(await answer.text());
    } catch {
      // Offline: Enter submits the form, which shows the error.
    }
  }
  function show(html) {
    found.innerHTML = html;
    found.hidden = !html;
  }
}
