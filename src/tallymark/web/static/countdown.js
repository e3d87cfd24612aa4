// The time that is left until data-until, in seconds since 1970.
export function mount(element) {
  const until = Number(element.dataset.until) * 1000;
  const write = () => {
    if (!element.isConnected) return clearInterval(ticking); // another took its place
    let left = Math.max(0, Math.floor((until - Date.now()) / 1000));
    const parts = [];
    for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
      if (left >= size) parts.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    }
    element.textContent = parts.slice(0, 2).join(" ") || "closed";
  };
  const ticking = setInterval(write, 1000);
  write();
}
