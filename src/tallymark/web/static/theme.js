// Button that switches between light and dark; the server reads the cookie, so nothing flashes.
export function mount(button) {
  const root = document.documentElement;
  button.hidden = false;
  button.addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  });
}
