// The operator's side: how an app's pushes do, what came to nothing, one user, and one notification from creation to answer. It only
// looks; the server logs each look at a user.

const lookAgain = 5000; // ms between two overviews
const recheck = 3000; // ms, while a push of the notification that is shown is still owed: each look is logged
const searches = 10; // pages that one click goes through until there is something to show
const names = { apns: "APNs", fcm: "FCM" };
const systems = { ios: "iOS", android: "Android" };

const conditions = {
  running: "The provider takes the pushes.",
  sandbox: "There are no credentials: the sandbox takes the pushes, and no device gets them.",
  outage: "The provider takes no pushes at the moment; they wait.",
  parked: "The app’s configuration is wrong; the pushes that it concerns wait until that is mended.",
};
const series = [["accepted", "Accepted", "good"], ["retried", "Go again", "slow"], ["rejected", "Rejected", "bad"], ["gone", "Dead tokens", "bad"]];

/** Since when, as a stretch of time: "4 min", "2 h". */
function stretch(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, milliseconds)} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

export function makeOperator(kit, { call, makePicture, fate, reasons }) {
  const { attempt, element, find, free, icon, redrawTimes, time } = kit;
  const ending = (token) => (token ? element("code", { title: "The end of its token" }, `…${token}`) : null);

  // --- the providers, and the last hour

  const created = makePicture(kit, { label: "Notifications created", tone: "good" });
  find("created").append(created.node);
  const providers = new Map(); // provider -> what is drawn of it

  function provider(name) {
    let drawn = providers.get(name);
    if (drawn) return drawn;
    const pictures = new Map(series.map(([key, label, tone]) => [key, makePicture(kit, { label, tone })]));
    const title = element("h3", { id: `provider-${name}` }, names[name] ?? name);
    const state = element("span", { class: "state" });
    const facts = element("p", { class: "facts" });
    const why = element("p", { class: "why" });
    const node = element("article", { class: "provider", "data-provider": name, "aria-labelledby": title.id },
      element("header", { class: "provider-head" }, title, state), facts, why,
      element("div", { class: "pictures" }, ...[...pictures.values()].map((one) => one.node)));
    find("providers").append(node);
    providers.set(name, (drawn = { pictures, state, facts, why, node }));
    return drawn;
  }

  function owedText(owed, at) {
    if (!owed) return "What is owed isn’t known: the database can’t be read.";
    if (owed.count === 0) return "Nothing is owed.";
    const age = stretch(Date.parse(at) - Date.parse(owed.oldest_created_at));
    return `${owed.count.toLocaleString("en")} ${owed.count === 1 ? "alert is" : "alerts are"} owed, the oldest for ${age}.`;
  }

  function drawProvider(one, at, firstMinute) {
    const drawn = provider(one.provider);
    drawn.state.className = `state condition-${one.condition}`;
    drawn.state.textContent = one.condition;
    drawn.state.title = conditions[one.condition] ?? "";
    drawn.facts.replaceChildren(element("b", {}, owedText(one.owed, at)), one.in_flight ? ` ${one.in_flight} in flight.` : "");
    const parts = [conditions[one.condition]];
    if (one.reason) parts.push(element("code", {}, one.reason));
    if (one.since) parts.push(element("span", {}, "It began ", time(one.since), "."));
    drawn.why.replaceChildren(...parts.flatMap((part) => [part, " "]));
    for (const [key, picture] of drawn.pictures) picture.draw(one.last_hour[key], firstMinute);
  }

  function drawDead({ last_hour, spared_until, latest }) {
    find("dead-summary").textContent = last_hour === 0 ? "None in the last hour" : `${last_hour.toLocaleString("en")} in the last hour`;
    const spared = find("dead-spared");
    spared.hidden = !spared_until;
    if (spared_until) spared.replaceChildren("So many died at once that none is deleted for now. Is the app’s environment, topic or project right?");
    find("dead-list").replaceChildren(...latest.map(({ token, provider: name, at, reason }) =>
      element("li", {}, icon("phone"), element("div", {},
        element("p", {}, element("b", {}, names[name] ?? name), " ", ending(token), " ", reason ? element("code", {}, reason) : null),
        element("p", { class: "hint" }, time(at))))));
  }

  function drawStreams({ count, listeners, most_heard }) {
    find("streams").hidden = count === 0;
    const of = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
    find("streams-summary").textContent = `${of(listeners, "subscription")} to ${of(count, "stream")} on this node`;
    find("streams-list").replaceChildren(...most_heard.map(({ stream, listeners: number }) =>
      element("li", {}, icon("route"), element("div", {}, element("p", {}, element("code", {}, stream)), element("p", { class: "hint" }, of(number, "subscription"))))));
  }

  function drawOverview({ app, at, started_at, providers: all, dead_tokens, last_hour, streams }) {
    find("app").textContent = app;
    find("app-initial").textContent = app.slice(0, 1).toUpperCase();
    find("health-summary").replaceChildren("The server started ", time(started_at), "; of the time before, nothing is known.");
    created.draw(last_hour.created, last_hour.first_minute);
    for (const one of all) drawProvider(one, at, last_hour.first_minute);
    drawDead(dead_tokens);
    drawStreams(streams);
  }

  const fresh = find("fresh");
  function showFresh(isFresh) {
    const text = isFresh ? "up to date" : "connecting";
    if (fresh.textContent !== text) fresh.textContent = text; // a status is read out when it changes
    fresh.classList.toggle("on", isFresh);
  }

  /** Goes on for as long as the page lives; one that nobody sees asks nothing. */
  async function watch() {
    if (!document.hidden) {
      try {
        drawOverview(await call("GET", "/operate/overview"));
        showFresh(true);
      } catch (problem) {
        if (!(problem instanceof kit.Problem)) throw problem;
        if (problem.status === 401) return;
        showFresh(false);
      }
      redrawTimes();
    }
    setTimeout(watch, lookAgain);
  }

  // --- deliveries

  const list = find("push-list");
  const further = find("further");
  const reasonForm = find("reason-form");
  let filter = { state: "rejected", reason: "" };
  let latest = null; // the round whose deliveries are shown: what an older one still finds is nobody's any more

  function why(delivery) {
    const { state, reason, answers } = delivery;
    if (state === "none") return reasons[reason] ?? "";
    return element("span", {}, fate(delivery), " ", answers.at(-1)?.reason ? element("code", {}, answers.at(-1).reason) : reason ? element("code", {}, reason) : null);
  }

  function storyButton(notification, label = "From creation to answer") {
    const button = element("button", { type: "button", class: "icon-button", "aria-label": label, title: label }, icon("route"));
    button.addEventListener("click", () => attempt(button, () => story.show(notification)));
    return button;
  }

  function row(delivery) {
    const { user_id, token, provider: name, state, created_at, notification_id } = delivery;
    return element("li", { class: "push", "data-id": delivery.id },
      element("div", {},
        element("p", {}, element("span", { class: `state ${state}` }, state), " ", why(delivery)),
        element("p", { class: "hint" }, userLink(user_id), " ", name ? `${names[name]} ` : "", ending(token), " ", time(created_at))),
      storyButton({ id: notification_id }, `From creation to answer, for ${user_id}`));
  }

  function userLink(user) {
    const button = element("button", { type: "button", class: "link", title: "Look at this user" }, user);
    button.addEventListener("click", () => attempt(button, () => look(user)));
    return button;
  }

  /** A page may hold nothing and have a next one: goes on until there is something, or it is enough. */
  async function search(mine) {
    let found = [];
    for (let page = 0; page < searches && found.length === 0; page += 1) {
      const query = new URLSearchParams(Object.entries({ ...mine.filter, cursor: mine.cursor ?? "" }).filter(([, value]) => value));
      const answer = await call("GET", `/operate/deliveries?${query}`);
      if (mine !== latest) return;
      found = answer.deliveries;
      mine.cursor = answer.next_cursor;
      if (mine.cursor === null) break;
    }
    list.append(...found.map(row));
    find("no-pushes").hidden = list.children.length > 0;
    find("no-pushes").textContent = mine.cursor === null ? "There is none." : "None among the newest ones.";
    further.hidden = mine.cursor === null;
  }

  /** A new round, from the newest delivery on; also while another one is under way. */
  function searchFor(change) {
    filter = { ...filter, ...change };
    const mine = (latest = { filter, cursor: null });
    list.replaceChildren();
    find("no-pushes").hidden = true;
    further.hidden = true;
    const button = reasonForm.querySelector("[type=submit]");
    free(button, further);
    attempt(button, () => search(mine));
  }

  for (const radio of document.querySelectorAll("input[name=push-state]")) {
    radio.addEventListener("change", () => searchFor({ state: radio.value }));
  }
  reasonForm.addEventListener("submit", (event) => {
    event.preventDefault();
    searchFor({ reason: find("reason").value.trim() });
  });
  further.addEventListener("click", () => attempt(further, () => search(latest)));

  // --- a user

  const lookup = find("lookup-form");
  const more = find("user-older");
  let user = null;
  let older = null;

  function deviceRow(device) {
    const { platform, provider: name, environment, app_version, last_seen_at, told_count, in_flight, next_push_at } = device;
    const told = told_count === null ? "what it shows isn’t known" : `was told ${told_count}`;
    return element("li", {}, icon("phone"),
      element("div", {},
        element("p", {}, element("b", {}, systems[platform] ?? platform), " ", ending(device.token), app_version ? ` ${app_version}` : ""),
        element("p", { class: "hint" }, names[name] ?? name, environment === "sandbox" ? ", sandbox" : "", `, ${told}`,
          in_flight ? ", a push is under way" : "", next_push_at ? ", next push " : "", next_push_at ? time(next_push_at) : "", ", seen ", time(last_seen_at))));
  }

  function notificationRow(notification) {
    const { id, title, body, category, deep_link, created_at, read_at } = notification;
    return element("li", { class: `notification${read_at ? "" : " unread"}`, "data-id": id },
      element("span", { class: "mark" }, read_at ? "" : "unread"),
      element("div", { class: "content" },
        element("h4", {}, title), body ? element("p", { class: "body" }, body) : null,
        element("p", { class: "details" }, time(created_at), category ? element("span", { class: "chip" }, category) : null,
          deep_link ? element("code", { title: "Deep link" }, deep_link) : null)),
      element("div", { class: "actions" }, storyButton(notification)));
  }

  async function inbox(isFirst) {
    const mine = user;
    const path = `/operate/users/${encodeURIComponent(mine.name)}/notifications`;
    const page = await call("GET", isFirst ? path : `${path}?cursor=${older}`);
    if (mine !== user) return; // somebody else is looked at by now
    older = page.next_cursor;
    const rows = page.notifications.map(notificationRow);
    if (isFirst) find("user-inbox").replaceChildren(...rows);
    else find("user-inbox").append(...rows);
    find("user-older").hidden = older === null;
    find("user-nothing").hidden = find("user-inbox").children.length > 0;
  }

  /** Shows a user; the server logs it with the key's name. */
  async function look(name) {
    lookup.elements.user.value = name;
    kit.showFieldErrors(lookup, []);
    const mine = (user = { name });
    find("user-seen").hidden = true;
    free(more);
    let seen;
    try {
      seen = await call("GET", `/operate/users/${encodeURIComponent(name)}`);
    } catch (problem) {
      if (mine !== user) return;
      if (problem.status !== 404) throw problem;
      return kit.showFieldErrors(lookup, [{ field: "user", message: "The app knows nothing of this user." }]);
    }
    if (mine !== user) return;
    const { count, unread_count } = seen.badge;
    find("user-name").textContent = seen.user_id;
    find("user-badge").textContent = `${count || "No number"} on the icon, ${unread_count} unread`;
    find("user-devices").replaceChildren(...seen.device_tokens.map(deviceRow));
    find("user-no-devices").hidden = seen.device_tokens.length > 0;
    await inbox(true);
    if (mine !== user) return;
    find("user-seen").hidden = false;
    find("lookup").focus();
  }

  lookup.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = lookup.elements.user.value.trim();
    if (!name) return kit.showFieldErrors(lookup, [{ field: "user", message: "Name a user." }]);
    const button = lookup.querySelector("[type=submit]");
    free(button);
    attempt(button, () => look(name));
  });
  more.addEventListener("click", () => attempt(more, () => inbox(false)));

  const story = makeStory(kit, { call, fate, reasons, ending });
  searchFor({});
  watch();
}

/** One notification from its creation to the providers' answers. */
function makeStory({ drawNews, element, find, follow, icon, time }, { call, fate, reasons, ending }) {
  /** How long after the notification's creation. */
  const after = (created, at) => `+${stretch(Date.parse(at) - Date.parse(created))}`;

  function moment(created, at, ...what) {
    return element("li", {}, element("span", { class: "after" }, after(created, at)), element("span", {}, ...what, " ", element("span", { class: "hint" }, time(at))));
  }

  function drawDelivery(delivery) {
    const { created_at, token, platform, provider, state, reason, attempts, next_attempt_at, answers } = delivery;
    const steps = answers.map(({ at, outcome, status, reason: word }) =>
      moment(created_at, at, `${names[provider] ?? "The provider"} answered `, element("b", {}, outcome), status ? ` · ${status}` : "", " ", word ? element("code", {}, word) : ""));
    if (next_attempt_at) steps.push(moment(created_at, next_attempt_at, "The next attempt"));
    return element("li", { class: "delivery" }, icon("phone"),
      element("div", {},
        element("p", {}, element("b", {}, systems[platform] ?? "A former device"), " ", ending(token)),
        element("p", {}, element("span", { class: `state ${state}` }, state), ` ${fate(delivery)}`, attempts > 1 ? `, ${attempts} attempts` : "",
          reason ? element("code", {}, ` ${reason}`) : ""),
        steps.length ? element("ol", { class: "steps" }, ...steps) : null));
  }

  function draw(id, { deliveries }) {
    const [first] = deliveries;
    find("story-head").replaceChildren(...(first ? ["Created ", time(first.created_at), ` for ${first.user_id}`] : []));
    const none = deliveries.find(({ state }) => state === "none");
    drawNews(find("story-body"), [id, deliveries], () =>
      deliveries.length && !none
        ? element("ul", { class: "delivery-list" }, ...deliveries.map(drawDelivery))
        : element("p", { class: "nothing" }, none ? reasons[none.reason] ?? "" : "Its deliveries have had their time."));
    return deliveries.some(({ state }) => state === "owed" || state === "sending");
  }

  const showStory = follow(find("story"), recheck, (id) => call("GET", `/operate/deliveries?notification_id=${id}`), draw);

  function show({ id, title }) {
    find("story-of").textContent = title ?? id;
    return showStory(id);
  }

  return { show };
}
