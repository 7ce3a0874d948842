// <campanile-badge> and [data-notification-badge]: a user's number, live. See docs/realtime-pages.md.

const none = { count: 0 };
// A page may have two copies of this module: its own, and the server's, which an inbox imports. They share the connections.
const shared = Symbol.for("campanile");
const isFirst = !globalThis[shared];
const { feeds, inboxes } = (globalThis[shared] ??= { feeds: new Map(), inboxes: new Map() });
const hrefOf = (address) => new URL(address, document.baseURI).href;

export function claimsOf(token) {
	try {
		return JSON.parse(atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/")));
	} catch {
		return { sub: token };
	}
}
const ownerOf = (token) => claimsOf(token).sub;

async function post(address, bearer) {
	const to = new URL(address, document.baseURI);
	const headers = bearer ? { authorization: `Bearer ${bearer}` } : {};
	const csrf = to.origin === origin && document.querySelector("meta[name=csrf-token]");
	if (csrf) headers["x-csrf-token"] = csrf.content;
	let status = 0;
	const grant = await fetch(to, { method: "POST", headers })
		.then((answer) => (status = answer.status) < 300 && answer.json())
		.catch(() => {});
	return { ...grant, status };
}

function makeFeed(address) {
	const listeners = new Set();
	let owner, user, token, tokenSrc, spare, good, url, source, timer, ending, failures, lastID, badge;
	const isOpen = () => source?.readyState === 1;
	const subscribe = ({ names }) => names.forEach((name) => source?.addEventListener(name, hear));

	async function open() {
		close();
		if (token === null) return;
		const used = token;
		const mine = (url = new URL(address));
		const query = url.searchParams;
		if (used || tokenSrc) {
			// The page's own server knows who is signed in, by cookies or HTTP Basic, also when the token of the page has ended.
			let grant = tokenSrc ? await post(tokenSrc) : { token: used };
			const fresh = grant.token;
			// A stream token has one dot, a user's two.
			const isUsers = !tokenSrc || /\..*\./.test(fresh);
			// Logs must not find a user's token in an address.
			if (isUsers && mine === url) grant = await post(new URL("/stream_tokens", url), fresh);
			if (mine !== url) return;
			if (!grant.token) {
				if (token !== used) return open();
				if (grant.status === 401) {
					// The page's own server says that nobody is signed in.
					if (tokenSrc && !fresh) leave();
					else if (spare) [token, spare] = [spare, token];
				}
				return wait(grant.status);
			}
			spare = used;
			if (isUsers) {
				const now = ownerOf(fresh);
				if (user && user !== now) leave();
				user = now;
				if (used) owner = now;
				tell("token", (good = fresh));
			}
			query.set("access_token", grant.token);
		}
		if (lastID) query.set("last_event_id", lastID);
		source = new EventSource(url, { withCredentials: !query.has("access_token") });
		source.onerror = () => wait(0);
		listeners.forEach(subscribe);
	}

	function hear({ type, data, lastEventId }) {
		if (type === "open") {
			badge = null; // each connection counts anew
			return tell(type, !!lastID);
		}
		failures = 0;
		lastID = lastEventId;
		const value = JSON.parse(data);
		if (type !== "badge" || !(value.version <= badge?.version)) tell(type, value);
	}

	function tell(name, data, to = listeners) {
		if (data.count >= 0) {
			badge = data;
			navigator.setAppBadge?.(data.count).catch(() => {});
		}
		for (const { names, listener } of [...to]) if (names.includes(name)) listener(name, data);
	}

	function wait(status) {
		// The browser mends a broken connection, not a refused one.
		if (!(source?.readyState < 2)) timer = setTimeout(open, Math.random() * Math.min(60_000, 1000 * 2 ** failures++));
		tell("wait", status);
	}

	// The number and the place in the stream are a former user's.
	function leave() {
		if (user || badge?.count) tell("clear", none);
		[user, lastID, good] = ["", "", ""];
	}

	function close() {
		clearTimeout(timer);
		source?.close();
		timer = url = source = null;
	}

	function join({ token: given = "", tokenSrc: givenSrc = "", isBack }, one) {
		listeners.add(one);
		const whose = ownerOf(given) || givenSrc;
		// Another user's counts at once, a fresh one when needed, null is nobody's.
		if (owner === undefined || given === null || (whose && whose !== owner)) {
			if (owner !== undefined) tell("clear", none);
			[owner, user, token, tokenSrc, spare, lastID, failures, good] = [whose, ownerOf(given || ""), given, givenSrc, "", "", 0, ""];
			open();
		} else {
			tokenSrc = givenSrc || tokenSrc;
			if (given && given !== token) {
				token = good = given;
				if (timer) open();
			}
		}
		subscribe(one);
		if (good) tell("token", good, [one]);
		if (isOpen()) tell("open", false, [one]);
		else if (!isBack) lastID = "";
		if (badge?.version >= 0) tell("badge", badge, [one]);
		return () => {
			if (!listeners.delete(one)) return;
			// Turbo replaces elements.
			clearTimeout(ending);
			ending = setTimeout(async () => {
				if (listeners.size) return;
				close();
				feeds.delete(address);
				// The visit may have been a sign-out, and the app's icon keeps its number.
				if (navigator.setAppBadge && tokenSrc && badge?.count && (await post(tokenSrc)).status === 401 && !feeds.size) leave();
			}, 1000);
		};
	}

	return { isOpen, open, close, join };
}

export function listen(src, options, names, listener) {
	const address = hrefOf(src);
	if (!feeds.has(address)) feeds.set(address, makeFeed(address));
	return feeds.get(address).join(options, { listener, names: ["open", "wait", "clear", ...names] });
}

// Connects anew, with a fresh token where there is an address for it.
export const renew = (src) => feeds.get(hrefOf(src))?.open();

const openAll = (isDoubted) => feeds.forEach((feed) => (isDoubted || !feed.isOpen()) && feed.open());

const attributes = ["src", "token", "token-src", "notification-badge"];
const followed = new Map(); // by element
const data = (name) => `data-${name}`;
const option = (node, name) => (node.pill && node.getAttribute(name)) || node.getAttribute(data(name)) || "";

function conceal(node, isEmpty) {
	node.classList.toggle("hidden", (node.hidden = isEmpty));
}

function draw(node, count) {
	const most = option(node, "max") || 9;
	const label = option(node, "label") || `{count} unread notification${count === 1 ? "" : "s"}`;
	node.textContent = count > most ? `${most}+` : count || "";
	conceal(node, !count);
	node.dataset.count = count;
	node.role = "img";
	node.ariaLabel = label.replace("{count}", count);
}

function show(node, detail) {
	draw(node, detail.count);
	node.dispatchEvent(new CustomEvent("campanile:badge", { bubbles: true, detail }));
}

export function settingsOf(inbox) {
	const [src, token, tokenSrc] = attributes.map((name) => inbox.getAttribute(name) || "");
	return { address: hrefOf(src || "/notifications/stream"), token, tokenSrc };
}

// An inbox's stream tells the number too: no second one is opened beside it, nor at a visit after it.
function sourceOf(own) {
	const { href, origin } = new URL(own, document.baseURI);
	for (const inbox of document.querySelectorAll("campanile-inbox")) {
		const settings = settingsOf(inbox);
		if (new URL(settings.address).origin !== origin) continue;
		inboxes.set(origin, settings.address);
		return { address: settings.address, lent: (settings.token || settings.tokenSrc) && settings };
	}
	return { address: inboxes.get(origin) ?? href };
}

function follow(node) {
	// An inbox may come further down.
	if (document.readyState === "loading") return;
	const before = followed.get(node);
	const [src, token, tokenSrc, value] = attributes.map((name) => option(node, name));
	const own = src || value || "/badge/stream";
	const { address, lent } = sourceOf(own);
	const given = [own, token, tokenSrc].join();
	const isSame = before?.own === own;
	if (node.isConnected && before?.given === given && before.address === address) return;
	before?.end();
	followed.delete(node);
	if (!node.isConnected) return;
	if (before && !isSame) show(node, none);
	// The bare attribute is a page's own.
	if (!(isSame || src || value || token || tokenSrc || node.pill)) return;
	conceal(node, !parseInt(node.textContent));
	const by = token || tokenSrc || !isSame || before.given === given ? token : null;
	const one = { own, address, given, count: isSame ? before.count : undefined };
	followed.set(node, one);
	one.end = listen(address, lent || { token: by, tokenSrc }, ["badge"], (_, badge) => {
		if (badge.count >= 0) {
			one.count = badge.count;
			show(node, badge);
		}
	});
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(`:host{display:inline-block;padding:0 .5em;border-radius:1em;background:#d92d20;color:#fff;font:600 .8em/1.5 system-ui}:host([hidden]){display:none!important}`);

class Badge extends HTMLElement {
	static observedAttributes = attributes;
	pill = Object.assign(this.attachShadow({ mode: "open" }), { adoptedStyleSheets: [sheet] });
	constructor() {
		super();
		this.pill.append(document.createElement("slot"));
	}
	connectedCallback() { follow(this); }
	disconnectedCallback() { follow(this); }
	attributeChangedCallback() { follow(this); }
}

// Turbo 8 refreshes a page by making its elements what the server printed, which knows no number or an older one.
function mend({ target }) {
	const one = followed.get(target);
	if (!one) return;
	if (!target.pill && !target.hasAttribute(data("notification-badge"))) {
		one.end(); // it was taken for another element
		followed.delete(target);
	} else if (one.count >= 0) draw(target, one.count);
	else conceal(target, !parseInt(target.textContent));
}

function scan() {
	[...followed.keys(), ...document.querySelectorAll("campanile-badge, [data-notification-badge]")].forEach(follow);
	const node = document.querySelector("campanile-badge[document-title]");
	if (!node) return;
	const title = (node.hidden ? "" : `(${node.textContent}) `) + document.title.replace(/^\(\d+\+?\) /, "");
	if (title !== document.title) document.title = title;
}

if (isFirst) {
	let hiddenAt = 0;
	addEventListener("visibilitychange", () => {
		if (document.hidden) hiddenAt = Date.now();
		else openAll(Date.now() - hiddenAt > 30_000); // ms
	});
	addEventListener("online", openAll);
	addEventListener("pagehide", () => feeds.forEach((feed) => feed.close()));
	addEventListener("pageshow", ({ persisted }) => persisted && openAll());
}
if (!customElements.get("campanile-badge")) {
	addEventListener("turbo:morph-element", mend);
	document.addEventListener("DOMContentLoaded", scan);
	new MutationObserver(scan).observe(document, { childList: true, subtree: true, attributeFilter: attributes.map(data) });
	customElements.define("campanile-badge", Badge);
	scan();
}
