// The inbox: what <campanile-inbox> leaves to its page. Each entry's details and deliveries, a filter, the number in words.

export function makeInbox(kit, { call, token, onDeliveries }) {
  const { attempt, element, find } = kit;
  const list = find("list");
  const nothing = find("nothing");
  let status = "all";
  let newest; // the id of what has just arrived, until it is drawn
  let unread; // how many are, as the badge tells
  let focused; // what had the focus last

  // --- an entry

  function details({ category, deep_link, data }) {
    const node = element("span", { part: "details" });
    if (category) node.append(element("span", { part: "detail chip" }, category));
    if (deep_link) node.append(element("code", { part: "detail link", title: "Deep link" }, deep_link));
    for (const [key, value] of Object.entries(data ?? {})) {
      node.append(element("span", { part: "detail" }, `${key} `, element("b", { part: "value" }, String(value))));
    }
    return node;
  }

  function deliveriesButton(notification) {
    const node = element("button", { type: "button", part: "button deliveries", "aria-label": "Deliveries", title: "Deliveries" }, "➤");
    node.addEventListener("click", () => attempt(node, () => onDeliveries(notification)));
    return node;
  }

  list.onentry = (row, notification) => {
    row.dataset.id = notification.id;
    if (notification.id === newest) {
      row.part.add("new");
      newest = null;
    }
    row.querySelector("[part=content]").append(details(notification));
    if (onDeliveries) row.lastChild.before(deliveriesButton(notification));
    // A deep link's page is the app's: it isn't here, and looking at an inbox reads nothing.
    row.querySelector("[part=title]").onclick = null;
    return true;
  };

  // --- the filter, which hides rows by their parts: the list stays whole

  for (const radio of document.querySelectorAll("input[name=status]")) {
    radio.addEventListener("change", () => {
      list.className = status = radio.value;
      look();
    });
  }

  /** Says where nothing is left, and keeps the list from going on once every unread entry is there. */
  function look() {
    const root = list.shadowRoot;
    if (!root) return;
    const part = (name) => root.querySelector(`[part~=${name}]`);
    const shown = [...root.querySelectorAll("[part~=entry]")].filter((row) => row.checkVisibility());
    const isComplete = status === "unread" && shown.filter((row) => row.part.contains("unread")).length >= unread;
    list.classList.toggle("complete", isComplete);
    nothing.hidden = status === "all" || shown.length > 0 || !part("state").hidden || !(isComplete || part("more").hidden);
    nothing.textContent = status === "unread" ? "Everything is read." : "Nothing is read yet.";
  }

  document.addEventListener("focusin", ({ target }) => (focused = target));
  list.addEventListener("focusout", () => requestAnimationFrame(look));
  const changes = new MutationObserver(() => {
    if (status === "all") return;
    look();
    // The list gives a deleted entry's focus to the next one, which may be hidden.
    if (focused === list && document.activeElement === document.body) find("inbox").focus({ preventScroll: true });
  });
  customElements.whenDefined("campanile-inbox").then(() =>
    changes.observe(list.shadowRoot, { childList: true, subtree: true, attributeFilter: ["part", "hidden"] }));

  // --- what the stream tells

  function hear(name, data) {
    if (name === "notification.created") newest = data.id;
    if (name !== "badge") return;
    unread = data.unread_count;
    find("summary").textContent = unread === 0 ? "Everything is read" : `${unread} unread · ${data.count || "no number"} on the icon`;
    if (status !== "all") look();
  }

  const clear = find("clear-badge");
  clear.addEventListener("click", () => attempt(clear, () => call("DELETE", "/badge")));
  list.setAttribute("token", token);

  return { hear };
}
