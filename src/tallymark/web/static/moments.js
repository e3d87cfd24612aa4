// Update ages every few seconds, in the server's words.
const STEPS = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [86400, 3600, "h"],
  [30 * 86400, 86400, "d"],
];

export function mount(body) {
  const ahead = Number(body.dataset.now) * 1000 - Date.now(); // clocks differ
  const write = () => {
    for (const element of body.querySelectorAll("time[data-age]")) {
      const told = tell((Date.now() + ahead - Date.parse(element.dateTime)) / 1000);
      if (told && told !== element.textContent) element.textContent = told;
    }
  };
  setInterval(write, 5000);
}

function tell(seconds) {
  const size = Math.abs(seconds);
  if (size < 5) return "now";
  const step = STEPS.find(([most]) => size < most);
  if (!step) return "";
  const told = `${Math.floor(size / step[1])} ${step[2]}`;
  return seconds > 0 ? `${told} ago` : `in ${told}`;
}
