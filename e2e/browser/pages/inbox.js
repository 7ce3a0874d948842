// A page of another origin than the server's, with an inbox and a badge. Behind the address stand the server, the inbox's attributes,
// and with `badge` the address of the badge's stream.

const { server, badge, lang = "en", ...attributes } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
document.documentElement.lang = lang;
if (attributes.dir) document.documentElement.dir = attributes.dir;

function add(name, given) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(given)) node.setAttribute(key, value);
  document.querySelector("main").append(node);
  return node;
}

window.inbox = add("campanile-inbox", { src: new URL("/notifications/stream", server), ...attributes });
if (badge) add("campanile-badge", { id: "badge", src: new URL(badge, server) });
window.root = () => inbox.shadowRoot;
window.rows = () => [...root().querySelectorAll("[role=listitem]")];
window.titles = () => rows().map((row) => row.querySelector("a").textContent);
window.unread = () => rows().filter((row) => row.matches("[part~=unread]")).map((row) => row.querySelector("a").textContent);
window.said = () => { const state = root().querySelector("[part=state]"); return state.checkVisibility() ? state.querySelector("slot").name : ""; };
window.asked = [];
document.addEventListener("campanile:token", () => asked.push(inbox.getAttribute("token")));
await import(new URL("/assets/campanile-inbox.js", server));
