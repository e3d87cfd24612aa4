// Time left until data-until (Unix seconds), by the server's clock: data-now is its time when the
// page was rendered.
export function mount(element) {
  const { until, now, over } = element.dataset;
  const ahead = now ? Number(now) * 1000 - Date.now() : 0;
  const write = () => {
    if (!element.isConnected) return clearInterval(ticking); // another took its place
    let left = Math.max(0, Math.floor((Number(until) * 1000 - Date.now() - ahead) / 1000));
    const parts = [];
    for (const [size, name] of [
      [86400, "d"],
      [3600, "h"],
      [60, "min"],
      [1, "s"],
    ]) {
      if (left >= size) parts.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    }
    element.textContent = parts.slice(0, 2).join(" ") || over || "closed";
  };
  const ticking = setInterval(write, 1000);
  write();
}
