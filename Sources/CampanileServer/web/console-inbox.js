// The inbox: a list that grows downwards by pages and upwards by what the stream tells.

const pageSize = 20;

export function makeInbox(kit, { call, onDeliveries }) {
  const { attempt, element, find, icon, time } = kit;
  const list = find("notifications");
  const shown = new Map(); // id -> { node, notification }
  let cursor = null;
  let status = "all";
  let loading = null; // changes that came while the first page was under way
  let since = null; // changes that came while an older page was under way
  let round = 0;
  let isLoaded = false; // false as well when what is shown may lack something

  // --- one notification

  function button(name, label, work) {
    const node = element("button", { type: "button", class: "icon-button", "aria-label": label, title: label }, icon(name));
    node.addEventListener("click", () => attempt(node, work));
    return node;
  }

  function make(notification) {
    const entry = { notification };
    const toggle = button("check", "", async () => {
      const before = entry.notification;
      const changed = await call("PATCH", `/notifications/${before.id}`, { body: { read: !before.read_at } });
      // What the stream told meanwhile is this change or a later one.
      if (shown.get(before.id)?.notification === before) put(changed);
    });
    toggle.classList.add("toggle");
    const actions = element("div", { class: "actions" }, toggle);
    if (onDeliveries) actions.append(button("route", "Deliveries", () => onDeliveries(entry.notification)));
    actions.append(button("trash", "Delete", async () => {
      entry.isDeletedHere = true; // the stream may tell it before the answer does
      try {
        await call("DELETE", `/notifications/${notification.id}`);
        remove(notification.id);
      } finally {
        entry.isDeletedHere = false;
      }
    }));
    entry.node = element("li", { class: "notification", "data-id": notification.id },
      element("span", { class: "mark" }),
      element("div", { class: "content" },
        element("h3", {}, notification.title),
        notification.body ? element("p", { class: "body" }, notification.body) : null,
        details(notification)),
      actions);
    return entry;
  }

  function details({ category, deep_link, data, created_at }) {
    const node = element("p", { class: "details" }, time(created_at));
    if (category) node.append(element("span", { class: "chip" }, category));
    if (deep_link) node.append(element("code", { title: "Deep link" }, deep_link));
    for (const [key, value] of Object.entries(data ?? {})) {
      node.append(element("span", { class: "datum" }, `${key} `, element("b", {}, String(value))));
    }
    return node;
  }

  function draw({ node, notification }) {
    const isRead = Boolean(notification.read_at);
    node.classList.toggle("unread", !isRead);
    const mark = node.querySelector(".mark");
    mark.textContent = isRead ? "" : "unread";
    const toggle = node.querySelector(".toggle");
    const label = isRead ? "Mark unread" : "Mark read";
    if (toggle.title === label) return;
    toggle.title = label;
    toggle.setAttribute("aria-label", label);
    toggle.replaceChildren(icon(isRead ? "dot" : "check"));
  }

  // --- the list

  /** Newest first: ids grow, so their order is the order of creation. */
  function put(notification, isNew = false) {
    let entry = shown.get(notification.id);
    if (entry) {
      entry.notification = notification;
      return draw(entry);
    }
    if (cursor !== null && notification.id < oldest()) return;
    if (status === (notification.read_at ? "unread" : "read")) return;
    entry = make(notification);
    shown.set(notification.id, entry);
    draw(entry);
    if (isNew) entry.node.classList.add("new");
    const after = [...list.children].find((node) => node.dataset.id < notification.id);
    list.insertBefore(entry.node, after ?? null);
    drawNothing();
  }

  const oldest = () => list.lastElementChild?.dataset.id ?? "";

  function remove(id) {
    const entry = shown.get(id);
    if (!entry) return;
    const hadFocus = entry.node.contains(document.activeElement);
    const next = entry.node.nextElementSibling ?? entry.node.previousElementSibling;
    shown.delete(id);
    entry.node.remove();
    // Whoever goes through the list by keyboard stays where he was; what another took away must not put him on a button
    // that he did not choose.
    if (hadFocus) ((entry.isDeletedHere && next?.querySelector("button:last-child")) || find("inbox")).focus();
    drawNothing();
  }

  function drawNothing() {
    const nothing = find("nothing");
    nothing.hidden = shown.size > 0 || loading !== null || cursor !== null;
    nothing.textContent = status === "unread" ? "Everything is read." : status === "read" ? "Nothing is read yet." : "Nothing here yet.";
    find("older").hidden = cursor === null;
  }

  async function fetchPage() {
    const query = new URLSearchParams({ limit: pageSize, status });
    if (cursor) query.set("cursor", cursor);
    const mine = round;
    const page = await call("GET", `/notifications?${query}`);
    return mine === round ? page : null;
  }

  /** The first page anew: at the beginning, and whenever something may have been missed. */
  async function load() {
    const mine = (round += 1);
    cursor = null;
    since = null;
    loading = [];
    isLoaded = false;
    try {
      const page = await fetchPage();
      if (!page) return;
      list.replaceChildren();
      shown.clear();
      for (const notification of page.notifications) put(notification);
      cursor = page.next_cursor;
      const later = loading;
      loading = null;
      isLoaded = true;
      for (const [name, data] of later) hear(name, data);
      drawNothing();
      showBadge(page.badge);
    } catch (problem) {
      if (mine === round) loading = null;
      throw problem;
    }
  }

  async function loadOlder() {
    if (cursor === null || loading) return;
    const asked = cursor;
    const later = (since = []);
    const page = await fetchPage().finally(() => {
      if (since === later) since = null;
    });
    if (!page || cursor !== asked) return;
    cursor = null;
    for (const notification of page.notifications) put(notification);
    cursor = page.next_cursor;
    // The page may be older than what was told while it was under way.
    for (const [name, data] of later) hear(name, data);
    drawNothing();
    // It tells only changes: asked anew, it tells as well if the end is still in sight.
    sight.unobserve(older);
    sight.observe(older);
  }

  // --- what the stream tells

  let version = -1;
  function showBadge(badge) {
    if (badge.version <= version) return;
    version = badge.version;
    const { count, unread_count } = badge;
    find("summary").textContent = unread_count === 0 ? "Everything is read" : `${unread_count} unread · ${count || "no number"} on the icon`;
  }

  function markUpTo(id) {
    const now = new Date().toISOString();
    for (const entry of shown.values()) {
      if ((id && entry.notification.id > id) || entry.notification.read_at) continue;
      entry.notification = { ...entry.notification, read_at: now };
      draw(entry);
    }
  }

  function hear(name, data) {
    if (name === "badge") return showBadge(data);
    if (name === "reset") return attempt(null, load);
    if (loading) return loading.push([name, data]);
    since?.push([name, data]);
    if (name === "notification.created") put(data, true);
    if (name === "notification.updated") put(data);
    if (name === "notification.deleted") remove(data.id);
    if (name === "notifications.read_all") markUpTo(data.up_to);
  }

  // --- the tools

  for (const radio of document.querySelectorAll("input[name=status]")) {
    radio.addEventListener("change", () => {
      status = radio.value;
      attempt(null, load);
    });
  }
  const markAll = find("mark-all");
  markAll.addEventListener("click", () => attempt(markAll, async () => {
    // What arrives after this page was drawn stays unread.
    const newest = list.firstElementChild?.dataset.id;
    const { badge } = await call("POST", "/notifications/mark_all_read", { body: newest ? { up_to: newest } : {} });
    if (newest) markUpTo(newest);
    showBadge(badge);
  }));
  const clear = find("clear-badge");
  clear.addEventListener("click", () => attempt(clear, async () => showBadge(await call("DELETE", "/badge"))));
  const older = find("older");
  older.addEventListener("click", () => attempt(older, loadOlder));
  const sight = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && attempt(older, loadOlder), { rootMargin: "400px" });
  sight.observe(older);

  return { load, hear, isComplete: () => isLoaded || loading !== null };
}
