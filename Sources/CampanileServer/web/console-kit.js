// What the console's parts share: elements, times, and the calls with their problems.

/** An element with attributes; those that are null or false are left out. Text goes in as text, never as markup. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const node = document.createElementNS(space, "svg");
  node.setAttribute("class", "icon");
  node.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#${name}`);
  node.append(use);
  return node;
}

export const find = (id) => document.getElementById(id);

/** A token that people can tell from others: its first and last characters. */
export const shortToken = (token) => (token.length > 20 ? `${token.slice(0, 8)}…${token.slice(-6)}` : token);

const units = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const absolute = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

function age(date, now) {
  let amount = (date - now) / 1000;
  if (amount > -10) return "now";
  for (const [unit, size] of units) {
    if (amount > -size) return relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" }).format(date);
}

/** A <time> that says how long ago it was; `redrawTimes` brings it up to date. */
export function time(text) {
  const date = new Date(text);
  // An age that grows is no news, where news is read out.
  return element("time", { datetime: text, title: absolute.format(date), "aria-live": "off" }, age(date, Date.now()));
}

export function redrawTimes() {
  for (const node of document.querySelectorAll("time[datetime]")) {
    const text = age(new Date(node.dateTime), Date.now());
    if (node.textContent !== text) node.textContent = text;
  }
}

const drawnOf = new WeakMap(); // place -> what it was drawn of

/** Draws a place anew if it is of something else than before: where that is read out, nobody is to hear the same again. */
export function drawNews(place, shown, draw) {
  const text = JSON.stringify(shown);
  if (drawnOf.get(place) === text) return;
  drawnOf.set(place, text);
  place.replaceChildren(draw());
}

/** What the server answers when it can't do what it is asked (RFC 9457). */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? "The server gave no reason.");
    Object.assign(this, { status, title: body.title, errors: body.errors ?? [], requestID: body.request_id });
  }
}

/** Calls of one credential: `call(method, path, {body, headers, signal})` gives the answer's JSON, or throws a Problem. */
export function caller(credential, onRefused = () => {}) {
  return async (method, path, { body, headers = {}, signal } = {}) => {
    const sent = { authorization: `Bearer ${credential}`, ...headers };
    if (body !== undefined) sent["content-type"] = "application/json";
    let answer;
    try {
      answer = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", signal });
    } catch {
      throw new Problem(0, { title: "The server can’t be reached", detail: "It may be restarting. Try again in a moment." });
    }
    const value = await answer.json().catch(() => ({}));
    if (answer.ok) return value;
    const problem = new Problem(answer.status, value);
    if (answer.status === 401) onRefused(problem);
    throw problem;
  };
}

/** Shows what is wrong at the form's fields; gives the messages that belong to none of them. */
export function showFieldErrors(form, errors) {
  for (const control of form.elements) {
    if (!control.name) continue;
    control.removeAttribute("aria-invalid");
    const place = find(`${control.id}-error`);
    if (place) place.textContent = "";
  }
  const rest = [];
  let first;
  for (const { field, message } of errors) {
    const control = form.elements[field];
    const place = control && find(`${control.id}-error`);
    if (!place) {
      rest.push(message);
      continue;
    }
    place.textContent = [place.textContent, message].filter(Boolean).join(" ");
    control.setAttribute("aria-invalid", "true");
    const folded = control.closest("details");
    if (folded) folded.open = true;
    if (!first || first.compareDocumentPosition(control) & Node.DOCUMENT_POSITION_PRECEDING) first = control; // the uppermost
  }
  first?.focus();
  return rest;
}

/** Shows a problem at the top of the window until it is closed or replaced. */
export function complain(problem) {
  const close = element("button", { type: "button", class: "icon-button", "aria-label": "Close this message" }, icon("close"));
  const text = element("p", {}, element("b", {}, problem.title ?? "Something went wrong here"), ` ${problem.message}`);
  if (problem.requestID) text.append(element("code", { title: "The request’s id, as in the log" }, problem.requestID));
  const box = element("div", { class: "alert" }, text, close);
  close.addEventListener("click", () => box.remove());
  find("alerts").replaceChildren(box);
}

const waitedFor = new WeakMap(); // button -> the attempt that it waits for

/** Runs what a person asked for: once at a time, and with its problem shown. */
export async function attempt(button, work) {
  if (button?.getAttribute("aria-disabled") === "true") return;
  const mine = {};
  if (button) waitedFor.set(button, mine);
  button?.setAttribute("aria-disabled", "true");
  const isWaitedFor = () => !button || waitedFor.get(button) === mine;
  try {
    await work();
    if (button && isWaitedFor()) find("alerts").replaceChildren();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (isWaitedFor() && problem.status !== 401) complain(problem);
  } finally {
    if (isWaitedFor()) button?.removeAttribute("aria-disabled");
  }
}

/** Lets buttons be pressed again: what they waited for is nobody's any more, and its problem neither. */
export function free(...buttons) {
  for (const button of buttons) {
    waitedFor.delete(button);
    button.removeAttribute("aria-disabled");
  }
}

/**
 * Shows in a dialog what `ask(id)` answers, and asks again while `draw(id, answer)` says that more is to come.
 * Gives the function that shows the dialog for an id.
 */
export function follow(dialog, recheck, ask, draw) {
  let looking = null;
  let shown = null; // what was asked for last
  dialog.addEventListener("close", () => clearTimeout(looking));

  async function look(id) {
    clearTimeout(looking);
    const answer = await ask(id);
    if (shown !== id) return;
    if (draw(id, answer)) looking = setTimeout(() => attempt(null, async () => dialog.open && shown === id && look(id)), recheck);
  }

  return async (id) => {
    shown = id;
    await look(id);
    if (shown === id && !dialog.open) dialog.showModal();
  };
}
