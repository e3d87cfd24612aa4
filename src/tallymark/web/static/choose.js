// Selection of runs to compare: the button shows the number, and is enabled for two to six.
export function mount(form) {
  const button = form.querySelector("[data-compare]");
  const write = () => {
    const count = form.querySelectorAll("[name=run]:checked").length;
    button.textContent = count ? `Compare ${count}` : "Compare";
    button.setAttribute("aria-disabled", String(count < 2 || count > 6));
    if (count >= 2 && count <= 6) button.removeAttribute("aria-disabled");
  };
  form.addEventListener("change", write);
  form.addEventListener("submit", (event) => {
    if (button.hasAttribute("aria-disabled")) event.preventDefault();
  });
  write();
}
