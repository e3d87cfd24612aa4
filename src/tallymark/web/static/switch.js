// A checkbox stored in a cookie; unchecked is `off`.
export function mount(label) {
  const box = label.querySelector("input");
  const { cookie, off } = box.dataset;
  label.hidden = false;
  box.checked = !document.cookie.split("; ").includes(`${cookie}=${off}`);
  box.addEventListener("change", () => {
    document.cookie = `${cookie}=${box.checked ? "on" : off}; path=/; max-age=31536000; samesite=lax`;
  });
}
