// Mount the modules that elements name in data-module. Pages work without script, so they are painted
// first.
export async function mount(root) {
  for (const element of root.querySelectorAll("[data-module]")) {
    for (const address of element.dataset.module.split(" ")) {
      const module = await import(address);
      module.mount(element);
    }
  }
}
function start() {
  const here = document.querySelector(".nav [aria-current]"); // where it does not fit, it scrolls
  if (here) here.parentElement.scrollLeft = here.offsetLeft - innerWidth / 2;
  mount(document);
}
if (document.hidden)
  start(); // which is not painted
else requestAnimationFrame(() => setTimeout(start));
