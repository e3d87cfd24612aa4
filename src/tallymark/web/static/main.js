// Finds what wants script, and mounts its modules. Pages work without this file.
export async function mount(root) {
  for (const element of root.querySelectorAll("[data-module]")) {
    for (const address of element.dataset.module.split(" ")) {
      const module = await import(address);
      module.mount(element);
    }
  }
}
mount(document);
