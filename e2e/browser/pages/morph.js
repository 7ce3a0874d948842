// Turbo 7.1, which runs here, can't morph. What a page refresh of Turbo 8 with turbo-refresh-method "morph" does to a page is imitated
// from its documentation: elements are kept and get the attributes and children that the server printed, those with
// data-turbo-permanent are left alone, and turbo:morph-element tells of each element, turbo:morph of the page.

function morphNode(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.hasAttribute("data-turbo-permanent")) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  const kept = [...old.childNodes];
  for (const child of [...fresh.childNodes]) {
    const next = kept.shift();
    if (next?.nodeName === child.nodeName) morphNode(next, child);
    else if (next) next.replaceWith(child);
    else old.append(child);
  }
  kept.forEach((node) => node.remove());
  old.dispatchEvent(new CustomEvent("turbo:morph-element", { bubbles: true, detail: { currentElement: old, newElement: fresh } }));
}

/** Makes the body what this HTML says. */
window.morphBody = (html) => {
  const fresh = document.createElement("body");
  fresh.innerHTML = html;
  morphNode(document.body, fresh);
  document.documentElement.dispatchEvent(new CustomEvent("turbo:morph", { bubbles: true }));
};
/** Makes an element what the server printed at first, as a stream with method "morph" does: turbo:morph tells of pages only. */
window.morphPart = (id) => morphNode(document.getElementById(id), new DOMParser().parseFromString(printed, "text/html").getElementById(id));
/** Makes the body what the server printed at first. */
window.refresh = () => morphBody(printed);
window.printed = document.body.innerHTML;
