// Tooltips from data-tip, for pointer and keyboard.
export function mount(body) {
  const box = document.createElement("div");
  Object.assign(box, { className: "tipbox", role: "tooltip", hidden: true, id: "tip" });
  body.append(box);
  let owner = null;

  function show(event) {
    const next = event.target.closest?.("[data-tip]") ?? null;
    if (next === owner) return;
    owner?.removeAttribute("aria-describedby");
    owner = next;
    box.hidden = !owner;
    if (!owner) return;
    owner.removeAttribute("title"); // or the browser would say it a second time
    box.textContent = owner.dataset.tip;
    owner.setAttribute("aria-describedby", "tip");
    const at = owner.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8));
    const above = at.top - box.offsetHeight - 6;
    box.style.left = `${left}px`;
    box.style.top = `${above > 4 ? above : at.bottom + 6}px`;
  }
  addEventListener("pointerover", show);
  addEventListener("focusin", show);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") box.hidden = true;
  });
}
