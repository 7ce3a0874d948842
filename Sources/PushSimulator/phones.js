// Draws phones. One phone is one element; it is drawn again from what /devices says of it.

const shownBanners = 3;

function element(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** The same app has the same colour everywhere. */
function hue(text) {
  let sum = 0;
  for (const character of text) sum = (sum * 31 + character.codePointAt(0)) % 360;
  return sum;
}

/** The last part of a bundle id is what people call the app. */
function appName(device) {
  const parts = (device.app ?? "app").split(".");
  return parts[parts.length - 1] || "app";
}

function banner(notification) {
  const node = element("li", "phone-banner");
  node.dataset.id = notification.apns_id;
  if (notification.title) node.append(element("b", "", notification.title));
  if (notification.subtitle) node.append(element("span", "phone-subtitle", notification.subtitle));
  if (notification.body) node.append(element("span", "", notification.body));
  // Its place alone: the page loads nothing from elsewhere.
  if (notification.image_url) node.append(element("div", "phone-image", notification.image_url));
  if (notification.buttons) node.append(element("div", "phone-buttons", `buttons: ${notification.buttons}`));
  const facts = bannerFacts(notification);
  if (facts) node.append(element("small", "phone-facts", facts));
  return node;
}

/** What else is known of a notification, in words. */
function bannerFacts({ interruption_level: level, thread_id: thread, channel_id: channel, drawn_by: drawer }) {
  return [
    level, thread && `thread ${thread}`, channel && `channel ${channel}`, drawer === "app" && "drawn by the app",
  ].filter(Boolean).join(" · ");
}

function note(device) {
  if (device.note) return device.note;
  if (device.state === "gone") return "The token is dead: the app was removed.";
  if (device.waiting > 0) return `${device.waiting} waiting until it is on again`;
  if (device.older_badges > 0) return `${device.older_badges} older numbers came late`;
  return `${device.received} received`;
}

/** A badge that people can read: 1,204 becomes 999+. */
function badgeText(count) {
  return count > 999 ? "999+" : String(count);
}

/**
 * A new phone.
 * @param {object} device as /devices lists it
 * @param {(token: string, isOnline: boolean) => void} [onSwitch] called when its switch is used; without it there is none
 */
export function phone(device, onSwitch) {
  const node = element("li", "phone");
  const foot = element("div", "phone-foot", element("span", "phone-token"));
  if (onSwitch) foot.append(powerSwitch(device, onSwitch));
  const icon = element("span", "phone-icon");
  node.append(
    element("div", "phone-screen",
      element("div", "phone-status", element("span", "phone-kind"), element("span", "phone-line")),
      element("ul", "phone-banners"),
      element("div", "phone-app", icon, element("span", "phone-name"))),
    foot,
    element("p", "phone-note"));
  redraw(node, device);
  return node;
}

function powerSwitch(device, onSwitch) {
  const toggle = element("button", "phone-switch", element("span", "phone-power"), element("i", ""));
  toggle.type = "button";
  toggle.setAttribute("role", "switch");
  toggle.addEventListener("click", () => onSwitch(device.token, toggle.getAttribute("aria-checked") !== "true"));
  return toggle;
}

/** Draws a phone again; only what changed moves. */
export function redraw(node, device) {
  const find = (name) => node.querySelector(name);
  const name = appName(device);
  node.classList.toggle("off", !device.online);
  find(".phone-kind").textContent = device.platform === "ios" ? "iOS" : "Android";
  find(".phone-line").textContent = device.environment === "sandbox" ? "sandbox" : "";
  find(".phone-name").textContent = name;
  find(".phone-token").textContent = device.token;
  find(".phone-token").title = device.token;
  find(".phone-note").textContent = note(device);
  const toggle = find(".phone-switch");
  if (toggle) {
    toggle.setAttribute("aria-checked", String(device.online));
    find(".phone-power").textContent = device.online ? "on" : "off";
    toggle.setAttribute("aria-label", `${name}, phone ${device.token.slice(0, 8)}: on`);
  }
  redrawIcon(find(".phone-icon"), device, name);
  redrawBanners(find(".phone-banners"), device.notifications);
}

function redrawIcon(icon, device, name) {
  icon.style.setProperty("--hue", hue(device.app ?? ""));
  const text = device.badge > 0 ? badgeText(device.badge) : "";
  const old = icon.querySelector(".phone-badge");
  if (old && old.textContent === text) return;
  icon.replaceChildren(name.slice(0, 1).toUpperCase());
  if (!text) return;
  const badge = element("span", "phone-badge new", text);
  badge.setAttribute("aria-label", `badge ${device.badge}`);
  icon.append(badge);
}

function redrawBanners(list, notifications) {
  const newest = notifications.slice(-shownBanners).reverse();
  const wanted = newest.map((entry) => entry.apns_id).join(" ") + notifications.length;
  if (list.dataset.shown === wanted) return;
  list.dataset.shown = wanted;
  const old = new Map([...list.querySelectorAll("[data-id]")].map((node) => [node.dataset.id, node]));
  const nodes = newest.map((entry) => old.get(entry.apns_id) ?? banner(entry));
  const rest = notifications.length - newest.length;
  if (rest > 0) nodes.push(element("li", "phone-rest", `and ${rest} more`));
  list.replaceChildren(...nodes);
}
