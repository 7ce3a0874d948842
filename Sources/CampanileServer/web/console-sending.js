// What a producer does: creates notifications, and looks at what became of their pushes.

const recheck = 1000; // ms, while pushes are still owed

export const reasons = {
  no_devices: "Nothing was owed: the user had no device then.",
  push_false: "Nothing was owed: it was created without an alert.",
  expired: "Nothing was owed: it had expired.",
  imported: "Nothing was owed: it was imported.",
};

const states = {
  owed: "waits for its turn", sending: "is on its way", accepted: "the provider took it",
  superseded: "read, deleted, withdrawn or expired before it was sent", withheld: "the app is too old for its deep link",
  gone: "the device has left",
  rejected: "the provider refused it for good", failed: "every attempt failed",
};

/** What became of a delivery, in words. */
export function fate({ state, reason }) {
  if (reason === "restored") return "it was owed when the backup was made from which the database was restored";
  const words = states[state] ?? "";
  if (reason === "edited") return `${words}; sent again, silently, as it was edited`;
  return reason === "without_link" ? `${words}, without its deep link: the app is too old for it` : words;
}

const texts = ["title", "subtitle", "body", "image_url", "category", "deep_link", "interruption_level", "priority", "buttons"];
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

export function makeSending(kit, { call, user, preview, onSent }) {
  const { Problem, attempt, drawNews, element, find, follow, icon, shortToken, showFieldErrors, time } = kit;
  const form = find("compose");
  find("no-key").hidden = Boolean(call);
  form.hidden = !call;
  form.elements.to.value = user;

  // --- composing

  /** The same text is sent under the same key until it is answered: nothing is created twice when an answer is lost. */
  let pending = { text: "", key: "" };
  function idempotencyKey(body) {
    const text = JSON.stringify(body);
    if (pending.text !== text) {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      pending = { text, key: `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}` };
    }
    return pending.key;
  }

  /** What the form says: the request, with the mistakes that are known without the server, and what stands in its other fields. */
  function composed() {
    const fields = form.elements;
    const errors = [];
    const read = (name, words) => {
      if (!fields[name].value.trim()) return undefined;
      try {
        return JSON.parse(fields[name].value);
      } catch {
        errors.push({ field: name, message: words });
        return undefined;
      }
    };
    const users = fields.to.value.split(",").map((text) => text.trim()).filter(Boolean);
    if (users.length === 0) errors.push({ field: "to", message: "Name a user, or several with commas between them." });
    if (!fields.title.value.trim()) errors.push({ field: "title", message: "A title is needed." });
    const body = users.length === 1 ? { user_id: users[0] } : { user_ids: users };
    for (const name of texts) {
      if (fields[name].value) body[name] = fields[name].value;
    }
    const ttl = fields.ttl.value.trim();
    if (ttl) body.ttl = /^\d+$/.test(ttl) ? Number(ttl) : ttl;
    const data = read("data", "The data isn’t JSON.");
    if (data !== undefined) body.data = data;
    if (fields.android_display.value) body.android = { display: fields.android_display.value };
    if (!fields.push.checked) body.push = false;
    let other = read("other", "The other fields aren’t JSON.") ?? {};
    if (!isObject(other)) {
      errors.push({ field: "other", message: "The other fields must be a JSON object, such as {\"relevance_score\": 0.5}." });
      other = {};
    }
    errors.push(...add(other, body));
    return { body, users, errors, other };
  }

  /** Adds the other fields to the request; gives a mistake for each that is in the form already. Both may speak of Android. */
  function add(other, body) {
    const twice = [];
    for (const [name, value] of Object.entries(other)) {
      const isMore = name === "android" && isObject(value) && body.android && !Object.hasOwn(value, "display");
      if (isMore) body.android = { ...body.android, ...value };
      else if (name === "user_id" || name === "user_ids") twice.push("The recipients have a field of their own: To.");
      else if (!Object.hasOwn(body, name)) body[name] = value;
      else twice.push(`${name === "android" ? "android.display" : name} is given in a field of its own too.`);
    }
    return twice.map((message) => ({ field: "other", message }));
  }

  /** The server's names of fields are this form's, but for the recipients, the other fields and what lies deeper. */
  function placed(errors, other) {
    return errors.map(({ field, message }) => {
      const name = field.split(/[.[]/)[0];
      if (name === "user_id" || name === "user_ids") return { field: "to", message };
      if (field === "android.display" && !other.android?.display) return { field: "android_display", message };
      return { field: Object.hasOwn(other, name) ? "other" : name, message };
    });
  }

  async function send() {
    find("sent").replaceChildren();
    const { body, errors, other } = composed();
    if (errors.length) return showFieldErrors(form, errors);
    try {
      const created = await call("POST", "/notifications", { body, headers: { "idempotency-key": idempotencyKey(body) } });
      pending = { text: "", key: "" };
      showFieldErrors(form, []);
      for (const name of ["title", "subtitle", "body", "image_url"]) form.elements[name].value = "";
      preview.compose(composed());
      form.elements.title.focus();
      drawSent(body, created);
      onSent();
    } catch (problem) {
      if (!problem.errors?.length) throw problem;
      const rest = showFieldErrors(form, placed(problem.errors, other));
      if (rest.length) throw new Problem(problem.status, { title: problem.title, detail: rest.join(" "), request_id: problem.requestID });
    }
  }

  function drawSent(body, created) {
    const users = body.user_ids ?? [body.user_id];
    const button = element("button", { type: "button", class: "link" }, "Deliveries");
    const first = created.notifications?.[0] ?? created;
    button.addEventListener("click", () => showDeliveries({ id: first.id, title: body.title }));
    find("sent").replaceChildren(`Sent to ${users.length > 3 ? `${users.length} users` : users.join(", ")}. `, button);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("[type=submit]"), send);
  });

  form.addEventListener("input", () => preview.compose(composed()));

  // --- deliveries

  function drawDelivery(delivery) {
    const { token, platform, provider, environment, state, attempts, next_attempt_at, answers } = delivery;
    const where = [provider === "fcm" ? "FCM" : provider === "apns" ? "APNs" : null, environment === "sandbox" ? "sandbox" : null];
    const list = element("ol", { class: "answers" });
    for (const { at, outcome, status, reason } of answers) {
      list.append(element("li", {}, time(at), ` ${outcome}`, status ? ` · ${status}` : "", reason ? element("code", {}, reason) : ""));
    }
    return element("li", { class: "delivery" },
      icon("phone"),
      element("div", {},
        element("p", {}, element("b", {}, platform === "ios" ? "iOS" : platform === "android" ? "Android" : "A former device"), " ",
          token ? element("code", { title: token }, shortToken(token)) : "", " ",
          element("span", { class: "hint" }, where.filter(Boolean).join(", "))),
        element("p", {}, element("span", { class: `state ${state}` }, state), ` ${fate(delivery)}`,
          attempts > 1 ? `, ${attempts} attempts` : "", next_attempt_at ? ", next " : "", next_attempt_at ? time(next_attempt_at) : ""),
        answers.length ? list : null));
  }

  function draw(id, { reason, deliveries }) {
    drawNews(find("deliveries-body"), [id, reason, deliveries], () =>
      deliveries.length
        ? element("ul", { class: "delivery-list" }, ...deliveries.map(drawDelivery))
        : element("p", { class: "nothing" }, reasons[reason] ?? "No device has a part in it any more."));
    return deliveries.some(({ state }) => state === "owed" || state === "sending");
  }

  const show = follow(find("deliveries"), recheck, (id) => call("GET", `/notifications/${id}/deliveries`), draw);

  function showDeliveries({ id, title }) {
    find("deliveries-of").textContent = title;
    return attempt(null, () => show(id));
  }

  return { showDeliveries };
}
