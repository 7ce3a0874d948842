// Neither Debian nor PyPI has Stimulus. What the controllers here need of it is made again from its documentation: elements with
// data-controller are connected as they come and disconnected as they go, values are read from attributes, and an action calls a method.

export class Controller {
  constructor(element, identifier) {
    this.element = element;
    this.identifier = identifier;
    for (const name of Object.keys(this.constructor.values ?? {})) {
      Object.defineProperty(this, `${name}Value`, { get: () => element.getAttribute(`data-${identifier}-${name}-value`) });
    }
  }
  connect() {}
  disconnect() {}
}

/** Connects controllers from now on; `kinds` are lists of classes by identifier. Gives what is connected, by element. */
export function start(kinds) {
  const connected = new Map();

  function refresh() {
    for (const [element, controllers] of connected) {
      if (element.isConnected && controllers.every(({ identifier }) => element.dataset.controller?.split(" ").includes(identifier))) continue;
      connected.delete(element);
      controllers.forEach((controller) => controller.disconnect());
    }
    for (const element of document.querySelectorAll("[data-controller]")) {
      if (connected.has(element)) continue;
      const controllers = element.dataset.controller.split(" ").flatMap((name) => (kinds[name] ?? []).map((Kind) => new Kind(element, name)));
      connected.set(element, controllers);
      controllers.forEach((controller) => controller.connect());
    }
  }

  // An element that was taken out and put back within one turn, as Turbo does with permanent ones, is connected anew.
  new MutationObserver((records) => {
    for (const node of records.flatMap(({ removedNodes }) => [...removedNodes])) {
      for (const [element, controllers] of connected) {
        if (!node.contains(element)) continue;
        connected.delete(element);
        controllers.forEach((controller) => controller.disconnect());
      }
    }
    refresh();
  }).observe(document, { childList: true, subtree: true, attributeFilter: ["data-controller"] });
  refresh();

  document.addEventListener("submit", (event) => {
    const [, name, method] = /^submit->([\w-]+)#(\w+)$/.exec(event.target.dataset.action) ?? [];
    connected.get(event.target)?.find(({ identifier }) => identifier === name)?.[method](event);
  }, true);
  return connected;
}
