// What-if bar: put the typed or dragged rule into the URL, and fetch the board for it.
export function mount(bar) {
  const forms = new Map(
    [...bar.querySelectorAll("[data-rule]")].map((form) => [form.dataset.rule, form]),
  );
  const field = bar.querySelector("[name=formula]");
  const sliders = [...bar.querySelectorAll("[type=range]")];
  const opener = document.querySelector("[data-what-if-open]");
  const aside = document.querySelectorAll("[data-what-if-hides]");

  function go(changes) {
    const url = new URL(location);
    url.hash = "";
    const none = { formula: "", weights: "", config: "", offset: "", q: "", sort: "", order: "" };
    for (const [key, value] of Object.entries({ ...none, ...changes })) {
      if (value) url.searchParams.set(key, value);
      else url.searchParams.delete(key);
    }
    history.replaceState(null, "", url);
    dispatchEvent(new CustomEvent("board:ask"));
  }

  const acts = {
    formula: () => go({ formula: field.value }),
    weights() {
      const sum = sliders.reduce((all, each) => all + Number(each.value), 0) || 1;
      for (const each of sliders) {
        const told = each.parentElement.querySelector("[data-weight]");
        const [was, is] = [told.dataset.weight, (each.value / sum).toFixed(2)];
        told.replaceChildren(...(was === is ? [is] : [make("del", was), " ", make("b", is)]));
      }
      go({ weights: sliders.map((each) => `${each.name.slice(2)}:${each.value}`).join(",") });
    },
  };

  function show(open) {
    bar.hidden = !open;
    if (opener) opener.hidden = open;
    for (const each of aside) each.hidden = open;
  }

  function choose(mode) {
    for (const [rule, form] of forms) form.hidden = rule !== mode;
    for (const each of bar.querySelectorAll("[data-mode]"))
      each.hidden = each.dataset.mode === mode;
    acts[mode]();
    focus();
  }

  function focus() {
    bar.querySelector("[data-rule]:not([hidden]) input:not([type=hidden])")?.focus();
  }

  function reset() {
    for (const each of [field, ...sliders]) each.value = each.dataset.official;
    acts.weights();
    show(false);
    go({});
    opener?.focus();
  }

  for (const [rule, form] of forms) {
    form.addEventListener("input", acts[rule]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      acts[rule]();
    });
  }
  bar.addEventListener("click", (event) => {
    const mode = event.target.closest("[data-mode]")?.dataset.mode;
    if (!mode) return;
    event.preventDefault();
    choose(mode);
  });
  opener?.addEventListener("click", (event) => {
    event.preventDefault();
    show(true);
    choose(sliders.length ? "weights" : "formula");
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-what-if-reset]")) return;
    event.preventDefault();
    reset();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !bar.hidden) reset();
  });
  addEventListener("board:shown", ({ detail }) => {
    field.setAttribute("aria-invalid", String(detail !== null && !forms.get("formula").hidden));
  });
  const copy = bar.querySelector("[data-copy-link]");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy link"), 1500);
  });
  if (location.hash === "#what-if") focus(); // opened by its link, before this was here
  if (!bar.hidden && field.value !== field.defaultValue) acts.formula(); // typed before this was here
}

function make(name, text) {
  return Object.assign(document.createElement(name), { textContent: text });
}
