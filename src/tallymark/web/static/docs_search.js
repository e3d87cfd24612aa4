// Searches the documentation as it is typed; the form does the same without this.
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
      // Away: Enter asks again, and says so.
    }
  }
  function show(html) {
    found.innerHTML = html;
    found.hidden = !html;
  }
}
