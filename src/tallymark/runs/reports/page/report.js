(() => {
  "use strict";
  const filter = document.querySelector(".filter");
  const cases = [...document.querySelectorAll(".case")];
  if (!cases.length) return;
  const buttons = [...filter.querySelectorAll("button")];
  const search = filter.querySelector("input");
  const status = filter.querySelector("[role=status]");
  const nothing = document.querySelector(".nothing");
  let show = "all";
  const apply = () => {
    const words = search.value.trim().toLowerCase();
    let shown = 0;
    for (const each of cases) {
      const fits =
        (show === "all" || each.dataset.has.split(" ").includes(show)) &&
        (!words || each.textContent.toLowerCase().includes(words));
      each.hidden = !fits;
      shown += fits;
    }
    status.textContent = shown === cases.length ? "" : `${shown} of ${cases.length} shown`;
    nothing.hidden = shown > 0;
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      show = button.dataset.show;
      for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
      apply();
    });
  }
  search.addEventListener("input", apply);
  // A square of the matrix leads to its case, which may be folded or filtered away.
  const reveal = () => {
    const inside = location.hash && document.getElementById(location.hash.slice(1));
    const found = inside && inside.closest(".case");
    if (!found) return;
    found.hidden = false;
    found.open = true;
    found.scrollIntoView({ block: "start" });
  };
  window.addEventListener("hashchange", reveal);
  filter.hidden = false;
  reveal();
})();
