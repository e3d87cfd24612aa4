// Waterfall of a trace of any length: only visible rows are drawn, in a scrolling box.
const ROW = 28;
const MORE = 8;

export async function mount(box) {
  let spans;
  try {
    const answer = await fetch(box.dataset.spans);
    spans = (await answer.json()).spans;
  } catch {
    return; // the first rows, drawn by the server, stay
  }
  const body = box.querySelector("tbody");
  const above = makeGap();
  const below = makeGap();
  box.classList.add("fall-box");
  const draw = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - MORE);
    const count = Math.ceil(box.clientHeight / ROW) + 2 * MORE;
    const shown = spans.slice(first, first + count);
    above.firstChild.style.height = `${first * ROW}px`;
    below.firstChild.style.height = `${(spans.length - first - shown.length) * ROW}px`;
    body.replaceChildren(above, ...shown.map(makeRow), below);
  };
  let asked = 0;
  box.addEventListener("scroll", () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(draw);
  });
  draw();
}

function makeGap() {
  const row = document.createElement("tr");
  const cell = row.appendChild(document.createElement("td"));
  cell.colSpan = 4;
  row.className = "fall-gap";
  row.setAttribute("aria-hidden", "true");
  return row;
}

function makeRow(span) {
  const row = document.createElement("tr");
  row.className = `i${Math.min(span.depth, 5)}`;
  const [name, drawn, took, cost] = [0, 1, 2, 3].map(() =>
    row.appendChild(document.createElement("td")),
  );
  name.textContent = span.name;
  name.title = span.name;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const bar = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
  const facts = { class: span.kind, x: span.left, width: span.width, height: 14, rx: 2 };
  for (const [key, value] of Object.entries(facts)) bar.setAttribute(key, value);
  svg.setAttribute("aria-hidden", "true");
  drawn.append(svg);
  took.className = "n";
  took.textContent = span.took;
  cost.className = "n quiet";
  cost.textContent = span.cost;
  return row;
}
