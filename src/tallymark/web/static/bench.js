// Formula bench: fetch the result while typing; the URL holds the formula.
export function mount(form) {
  const field = form.querySelector("[name=formula]");
  const target = document.getElementById(form.dataset.target);
  let asking = null;
  let timer = 0;

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    const address = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
    history.replaceState(null, "", address);
    target.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${address}&part=result`, { signal: asking.signal });
      target.innerHTML = await answer.text();
      const wrong = target.querySelector("[data-column]");
      field.setAttribute("aria-invalid", wrong ? "true" : "false");
      target.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name === "AbortError") return;
      target.removeAttribute("aria-busy");
      const words = document.createElement("p");
      words.className = "notice warn";
      words.textContent =
        "The server does not answer. The last result is shown; type to try again.";
      if (!target.querySelector(".notice.warn")) target.prepend(words);
    }
  }
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 80);
  });
  if (field.value !== field.defaultValue) ask(); // typed before this was here
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
}
