// Copy buttons for code, and the current heading in the contents.
export function mount(article) {
  for (const figure of article.querySelectorAll("figure.sample")) addCopy(figure);
  const links = new Map();
  for (const link of document.querySelectorAll("[data-here] a"))
    links.set(decodeURIComponent(link.hash.slice(1)), link);
  if (!links.size) return;
  const headings = [...article.querySelectorAll("h2[id], h3[id]")];
  let at = null;
  const mark = () => {
    const read = headings.findLast((each) => each.getBoundingClientRect().top < 120);
    const link = read && links.get(read.id);
    if (link === at) return;
    at?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "location");
    if (link) keepInSight(link);
    at = link;
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

function keepInSight(link) {
  const box = link.closest(".docs-beside");
  const top = link.offsetTop - box.clientHeight / 2;
  if (box.scrollHeight > box.clientHeight) box.scrollTop = top;
}

function addCopy(figure) {
  const button = document.createElement("button");
  Object.assign(button, { className: "button bare", type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(readCode(figure.querySelector("pre")));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  figure.append(button);
}

function readCode(pre) {
  // Of a console session, copy only the typed commands.
  if (pre.dataset.language !== "console") return pre.textContent;
  return [...pre.querySelectorAll("b")].map((each) => each.textContent).join("\n");
}
